"""The role of a constraint, which limits the settings of threads and fails closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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

    def configure(self, config: Mapping[str, Any], warn: Callable[[str], None]) -> Mapping[str, Any]:  # noqa: ARG002  # as below
        """Return tables to merge over the configuration. They override its files, the command line and the program.

        Called before plugins get the configuration, and again for threads with their own keys, and after each change of them.
        It must return the same result for the same configuration, also after merging.

        Args:
            config: The merged tables. Do not change them.
            warn: Tells the user a sentence. Use it for values that were configured otherwise.

        Raises:
            ConfigError: The configuration cannot be used, or a source of the constraint cannot be read. The kernel does not
                start; a change is refused. Any other exception has the same effect.
        """
        return {}

    def settle(self, settings: Settings, warn: Callable[[str], None]) -> Settings:  # noqa: ARG002  # for those who override it
        """Return the settings with which a thread starts or is resumed, instead of the requested settings.

        Called before :meth:`check`. It is not called for children, which start with settings of their parent; :meth:`check`
        applies to them.

        Args:
            warn: Shows the user a sentence. Call it for each setting that you replace.

        Raises:
            CodexError: Nothing can replace them. The thread does not start. Any other exception has the same effect.
        """
        return settings

    def check(self, settings: Settings, thread: ThreadContext | None) -> None:
        """Refuse settings. Called before a thread starts or is resumed, and before each change of its settings.

        Args:
            settings: The settings as a whole, as they would be.
            thread: The thread whose settings change. None if it does not exist yet.

        Raises:
            CodexError: The settings are refused, with this text. Nothing of the change is applied. Any other exception refuses
                them too.
        """

    def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:  # noqa: ARG002  # for those who override it
        """Return the permissions for a turn, or narrower ones.

        Called when a turn is set up, and again before each of its calls, so it may narrow a running turn. Keep it cheap. The
        permissions of a turn are narrowed by the constraints of its thread and of all ancestors of that thread. Set ``fixed``
        in the options of the permissions if no approval may lift the limits.

        Args:
            permissions: The permissions of the thread's settings, with permissions granted by the user.
            thread: The thread of the turn, or one of its ancestors. ``thread.turn`` is None while a turn of an idle thread is
                set up.

        Raises:
            Exception: The turn, or the call, is refused. So it is if the result permits more.
        """
        return permissions
