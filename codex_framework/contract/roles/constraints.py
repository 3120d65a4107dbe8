"""The role of a constraint, which limits the settings of threads and fails closed."""

from __future__ import annotations

from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.threads import ThreadContext

__all__ = ["Constraint"]


class Constraint:
    """Limits what threads may be set to, and what their turns may do. Override what you need.

    Attributes:
        name: Short and unique.
    """

    name: str

    def check(self, settings: Settings, thread: ThreadContext | None) -> None:
        """Refuse settings. Called before a thread starts or is resumed, and before each change of its settings.

        Args:
            settings: The settings as a whole, as they would be.
            thread: The thread whose settings change. None means that it does not exist yet.

        Raises:
            CodexError: The settings are refused, with this text. Nothing of the change is applied. Any other exception refuses them
                too.
        """

    def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:  # noqa: ARG002  # for those who override it
        """Return the permissions for a turn, or narrower ones.

        Called when a turn is set up, and again before each of its calls, so it may narrow a running turn. Keep it cheap. A turn has
        the permissions that its own thread and all ancestors of that thread are left with. Set ``fixed`` in the options of the
        permissions if no approval may lift the limits.

        Args:
            permissions: Those of the thread's settings, with what the user has granted.
            thread: The thread of the turn, or one of its ancestors. ``thread.turn`` is None while a turn of an idle thread is set up.

        Raises:
            Exception: The turn, or the call, is refused. So it is if the result permits more.
        """
        return permissions
