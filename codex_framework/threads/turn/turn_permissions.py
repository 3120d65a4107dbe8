"""The permissions of one turn in each of its environments.

The parent, constraints and the user change them while it runs. The permissions of children never exceed the current permissions
of their parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from codex_framework.commands.access import file_access
from codex_framework.contract.errors import PluginError, ThreadError, ToolRefused
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT, EnvironmentSelection
from codex_framework.contract.protocol.events import ThreadSettingsAppliedEvent
from codex_framework.contract.protocol.permissions import AdditionalPermissions
from codex_framework.contract.protocol.policies import ReadOnly
from codex_framework.contract.roles.settings import Settings
from codex_framework.threads.agents import stricter_policies
from codex_framework.threads.constraints import narrow_permissions
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.environments import NOWHERE, within_environments
from codex_framework.threads.host import Host
from codex_framework.threads.settings_changes import settings_snapshot
from codex_framework.toolkit.selected_environments import environments_of

__all__ = ["TurnPermissions", "keep_turn_within_parent", "keep_within_parent"]


class TurnPermissions:
    """The permissions of one turn: its settings and the grants of the user, within the permissions of the parent.

    A grant applies to one environment only.

    Attributes:
        settings: The settings of the turn.

    Raises:
        ThreadError: The permissions of a child and its parent have nothing in common.
        PluginError: A constraint has failed.
    """

    def __init__(self, conversation: Conversation, turn_id: str) -> None:
        if conversation.parent is not None:
            from codex_framework.threads.turn.turn_permissions import keep_within_parent  # only for children

            keep_within_parent(conversation, turn_id)
        self._conversation = conversation
        self._turn_id = turn_id
        self.settings = conversation.settings
        self._above = conversation.settings_above
        self._faulty = conversation.host.environments.faulty(self.settings)
        self._granted: dict[str, Permissions] = {}
        self._permissions: dict[str, Permissions] = {}
        self._resolve_in(LOCAL_ENVIRONMENT)

    @property
    def primary(self) -> str:
        """The id of the primary environment, or of this machine if nothing may be done anywhere."""
        environments = self._environments
        return environments[0].environment_id if environments else LOCAL_ENVIRONMENT

    @property
    def _environments(self) -> tuple[EnvironmentSelection, ...] | None:
        """The selection, with what could not be used when the turn began at its end: the first of the others is primary."""
        chosen = self.settings.environments
        if chosen is None or not self._faulty:
            return chosen
        return tuple(sorted(chosen, key=lambda each: each.environment_id in self._faulty))

    def facts(self, environment_id: str = LOCAL_ENVIRONMENT) -> dict[str, Any]:
        """Return the fields of the turn's facts that follow from the permissions, for one of its environments."""
        permissions = self._resolve_in(environment_id)
        selection = self._selection(environment_id)
        cwd = self.settings.cwd if environment_id == LOCAL_ENVIRONMENT or selection is None else Path(selection.cwd)
        return {
            "environment_id": environment_id,
            "cwd": cwd,
            "permissions": permissions,
            "access": self._resolve(environment_id, permissions),
            "approval_policy": self.settings.approval_policy,
            "environments": self._environments,
        }

    def resolve(self, environment_id: str, permissions: Permissions) -> FileAccess:
        """Return permissions as they apply to the files of an environment. Constraints narrow them."""
        return self._resolve(environment_id, self._apply_constraints(environment_id, permissions))

    def narrow(self) -> bool:
        """Narrow the turn, if its ancestors have been narrowed since or a constraint narrows it. Return whether something has changed.

        If the settings change, grants for the session stay, and grants for the turn end.

        Raises:
            ToolRefused: No permissions remain, or a constraint has failed.
        """
        changed = self._follow_ancestors()
        if not self._conversation.host.registry.constraints:
            return changed
        for environment_id, before in list(self._permissions.items()):
            try:
                permissions = self._apply_constraints(environment_id, self._granted[environment_id])
            except PluginError as error:
                raise ToolRefused(error.fact) from error
            changed = changed or (permissions is not before and permissions != before)
            self._permissions[environment_id] = permissions
        return changed

    def grant(self, environment_id: str, more: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001  # as Caller.grant
        """Grant further permissions for the rest of the turn, or for the session including this turn."""
        if session:
            self._conversation.grant(environment_id, more)
        self._resolve_in(environment_id)
        granted = self._granted[environment_id].with_entries(more.entries, network=more.network)
        self._granted[environment_id] = granted
        self._permissions[environment_id] = self._apply_constraints(environment_id, granted)

    def _follow_ancestors(self) -> bool:
        above = self._conversation.settings_above
        if all(now is before for now, before in zip(above, self._above, strict=True)):
            return False
        from codex_framework.threads.turn.turn_permissions import keep_turn_within_parent

        try:
            settings = keep_turn_within_parent(self._conversation, self.settings, self._turn_id)
        except ThreadError as error:
            raise ToolRefused(error.fact) from error
        self._above = self._conversation.settings_above
        if settings is self.settings:
            return False
        self.settings = settings
        self._granted.clear()
        self._permissions.clear()
        self._resolve_in(LOCAL_ENVIRONMENT)
        return True

    def _resolve_in(self, environment_id: str) -> Permissions:
        """Return the permissions in an environment, resolved when they are first needed."""
        found = self._permissions.get(environment_id)
        if found is None:
            granted = self._granted[environment_id] = self._with_grants(environment_id)
            found = self._permissions[environment_id] = self._apply_constraints(environment_id, granted)
        return found

    def _with_grants(self, environment_id: str) -> Permissions:
        granted = self._conversation.granted.get(environment_id, AdditionalPermissions())
        permissions = self.settings.permissions
        if environment_id != LOCAL_ENVIRONMENT:
            selection = self._selection(environment_id)
            roots = None if selection is None else selection.workspace_roots
            permissions = permissions.evolve(workspace_roots=tuple(roots or ()))
        return permissions.with_entries(granted.entries, network=granted.network)

    def _apply_constraints(self, environment_id: str, permissions: Permissions) -> Permissions:
        """Return what constraints leave of permissions. Raises PluginError if one fails."""
        conversation = self._conversation
        if not conversation.host.registry.constraints:
            return permissions
        return narrow_permissions(conversation, permissions, partial(self._resolve, environment_id))

    def _resolve(self, environment_id: str, permissions: Permissions) -> FileAccess:
        selection = self._selection(environment_id)
        if selection is None:
            return NOWHERE
        host = self._conversation.host
        if environment_id == LOCAL_ENVIRONMENT:
            return file_access(permissions, self.settings.cwd, host.environ, host.deciding)
        from codex_framework.commands.remote_permissions import remote_access  # only for threads that work elsewhere

        environment = host.environments.offered[environment_id]
        return remote_access(permissions, selection.cwd, environment.info)

    def _selection(self, environment_id: str) -> EnvironmentSelection | None:
        found = (each for each in environments_of(self.settings) if each.environment_id == environment_id)
        return next(found, None)


def keep_within_parent(conversation: Conversation, submission: str = "") -> None:
    """Narrow the settings of a child, and of its ancestors, to what their parents are permitted now. Clients are informed.

    Called before each turn, and before the first call after a parent was narrowed. A child that was narrowed stays so.

    Args:
        submission: The id for the event.

    Raises:
        ThreadError: The permissions of parent and child have no common part that can be enforced.
    """
    parent = conversation.parent
    if parent is None:
        return
    keep_within_parent(parent)
    settings = _narrow(conversation.settings, parent.settings, conversation.host)
    if settings is not conversation.settings:
        conversation.settings = settings
        conversation.journal.emit(submission, ThreadSettingsAppliedEvent(settings_snapshot(settings)))


def keep_turn_within_parent(conversation: Conversation, settings: Settings, turn_id: str) -> Settings:
    """Return the settings of a child's running turn, narrowed to what its parent is permitted now. Raises ThreadError."""
    keep_within_parent(conversation, turn_id)
    return (
        settings if conversation.parent is None else _narrow(settings, conversation.parent.settings, conversation.host)
    )


def _narrow(settings: Settings, above: Settings, host: Host) -> Settings:
    """Return the settings, narrowed to the permissions of the threads above if necessary. Raises ThreadError."""
    settings = within_environments(settings, above)
    if settings.permissions != above.permissions or settings.cwd != above.cwd:
        permissions = _permissions_within(settings, above, host)
        if permissions is not settings.permissions:
            settings = settings.evolve(permissions=permissions)
    policy = above.approval_policy
    if settings.approval_policy != policy and settings.approval_policy not in stricter_policies(policy):
        settings = settings.evolve(approval_policy=policy)
    return settings


def _permissions_within(settings: Settings, above: Settings, host: Host) -> Permissions:
    """Return the widest candidate within the permissions of the child and of the threads above. Raises ThreadError."""

    def resolve(permissions: Permissions, of: Settings) -> FileAccess:
        return file_access(permissions, of.cwd, host.environ, host.deciding)

    own, allowed = resolve(settings.permissions, settings), resolve(above.permissions, above)
    for permissions in _candidates(settings.permissions, above.permissions):
        access = resolve(permissions, settings)
        if access.within(own) and access.within(allowed):
            return permissions
    raise ThreadError(
        "the permissions of this thread exceed those that its parent has now, and no part of them can be kept",
        slug="wider-agent",
        hint="Close the agent and start another one, which gets the permissions of its parent.",
    )


def _candidates(own: Permissions, above: Permissions) -> Iterator[Permissions]:
    yield own
    yield above
    yield permissions_of(ReadOnly()).evolve(options=above.options)
