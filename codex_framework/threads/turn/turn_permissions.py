"""What one turn may do, which its parent and the user change while it runs."""

from __future__ import annotations

from typing import Any

from codex_framework.commands.access import file_access
from codex_framework.contract.errors import PluginError, ThreadError, ToolRefused
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.threads.constraints import narrowed_permissions
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.environments import NOWHERE

__all__ = ["TurnPermissions"]


class TurnPermissions:
    """The permissions of one turn: those of its settings, with what the user granted, and within those of the parent.

    Attributes:
        settings: The settings of the turn.

    Raises:
        ThreadError: The permissions of a child and its parent have nothing in common.
        PluginError: A constraint has failed.
    """

    def __init__(self, conversation: Conversation, turn_id: str) -> None:
        if conversation.parent is not None:
            from codex_framework.threads.narrowing import keep_within_parent  # only for children

            keep_within_parent(conversation, turn_id)
        self._conversation = conversation
        self._turn_id = turn_id
        self.settings = conversation.settings
        self._above = conversation.settings_above
        self._granted = self._with_grants()
        self._permissions = self._narrowed(self._granted)

    def facts(self) -> dict[str, Any]:
        """Return the fields of the turn's facts that follow from the permissions."""
        return {
            "permissions": self._permissions,
            "access": self._resolved(self._permissions),
            "approval_policy": self.settings.approval_policy,
            "environments": self.settings.environments,
        }

    def resolve(self, permissions: Permissions) -> FileAccess:
        """Return permissions as they apply to the turn's files. Constraints narrow them. Without an environment there are none."""
        return self._resolved(self._narrowed(permissions))

    def _resolved(self, permissions: Permissions) -> FileAccess:
        if self.settings.environments == ():
            return NOWHERE
        host = self._conversation.host
        return file_access(permissions, self.settings.cwd, host.environ, host.deciding)

    def narrow(self) -> bool:
        """Narrow the turn, if its ancestors have been narrowed since or a constraint narrows it. Return whether something has changed.

        If the settings change, what the user granted for the session stays, and what was granted for the turn ends.

        Raises:
            ToolRefused: Nothing of the permissions can be kept, or a constraint has failed.
        """
        changed = self._follow_ancestors()
        if not self._conversation.host.registry.constraints:
            return changed
        try:
            permissions = self._narrowed(self._granted)
        except PluginError as error:
            raise ToolRefused(error.fact) from error
        changed = changed or (permissions is not self._permissions and permissions != self._permissions)
        self._permissions = permissions
        return changed

    def _follow_ancestors(self) -> bool:
        above = self._conversation.settings_above
        if all(now is before for now, before in zip(above, self._above, strict=True)):
            return False
        from codex_framework.threads.narrowing import keep_turn_within_parent

        try:
            settings = keep_turn_within_parent(self._conversation, self.settings, self._turn_id)
        except ThreadError as error:
            raise ToolRefused(error.fact) from error
        self._above = self._conversation.settings_above
        if settings is self.settings:
            return False
        self.settings = settings
        self._granted = self._permissions = self._with_grants()
        return True

    def grant(self, more: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001  # as Caller.grant
        """Grant further permissions for the rest of the turn, or for the session including this turn."""
        if session:
            self._conversation.granted = self._conversation.granted.merged(more)
        self._granted = self._granted.with_entries(more.entries, network=more.network)
        self._permissions = self._narrowed(self._granted)

    def _narrowed(self, permissions: Permissions) -> Permissions:
        """Return what constraints leave of permissions. Raises PluginError if one fails."""
        conversation = self._conversation
        if not conversation.host.registry.constraints:
            return permissions
        return narrowed_permissions(conversation, permissions, self._resolved)

    def _with_grants(self) -> Permissions:
        granted = self._conversation.granted
        return self.settings.permissions.with_entries(granted.entries, network=granted.network)
