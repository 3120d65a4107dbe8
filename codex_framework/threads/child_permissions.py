"""The permissions of children, which never exceed those that their parents have now."""

from __future__ import annotations

from collections.abc import Iterator

from codex_framework.commands.access import file_access
from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.events import ThreadSettingsAppliedEvent
from codex_framework.contract.protocol.policies import ReadOnly
from codex_framework.contract.roles.settings import Settings
from codex_framework.threads.agents import stricter_policies
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.environments import within_environments
from codex_framework.threads.host import Host
from codex_framework.threads.settings_changes import settings_snapshot

__all__ = ["keep_turn_within_parent", "keep_within_parent"]


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
    """Return the settings, or narrower ones that permit no more than those above. Raises ThreadError."""
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
    """Return the widest candidate that permits no more than the child's permissions and those above. Raises ThreadError."""

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
