"""Changes of a thread's settings, and the form of settings for clients and records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.events import EventMsg, SessionConfiguredEvent
from codex_framework.contract.protocol.ops import ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import CollaborationMode
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.value import fields_of
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.environments import selected

__all__ = ["changed_settings", "session_configured", "settings_snapshot"]

_RENAMED = {"effort": "reasoning_effort", "summary": "reasoning_summary"}


def changed_settings(
    settings: Settings,
    overrides: ThreadSettingsOverrides,
    named_permissions: Callable[[str], Permissions],
    named_provider: Callable[[str], ProviderInfo],
) -> Settings | None:
    """Return the settings with overrides applied, or None if these change nothing.

    Raises:
        CodexError: Two overrides contradict each other, or no profile, or no provider, has the given name.
    """
    given = {each.name: getattr(overrides, each.name) for each in fields_of(type(overrides))}
    changes = {_RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    changes |= {name: None for name in _RENAMED.values() if changes.get(name) == ""}
    if not changes:
        return None
    if "collaboration_mode" in changes:
        changes |= _of_mode(changes["collaboration_mode"])
    if "cwd" in changes:
        changes["cwd"] = Path(changes["cwd"])
        changes.setdefault("environments", None)
    if changes.get("environments") is not None:
        changes |= selected(changes["environments"])
    if "model_provider" in changes:
        changes["provider"] = named_provider(changes.pop("model_provider"))
    return settings.evolve(**_with_permissions(settings, changes, named_permissions))


def _of_mode(mode: CollaborationMode) -> dict[str, Any]:
    """Return the settings that a collaboration mode brings.

    Raises:
        ThreadError: There is no such mode.
    """
    if not mode.is_known:
        raise ThreadError(
            f"there is no collaboration mode {mode.mode[:80]!r}", slug="bad-request", hint="Use plan or default."
        )
    found = {"model": mode.settings.model, "reasoning_effort": mode.settings.reasoning_effort}
    return {name: value for name, value in found.items() if value is not None}


def _with_permissions(
    settings: Settings, changes: dict[str, Any], named_permissions: Callable[[str], Permissions]
) -> dict[str, Any]:
    """Return the changes with a single value for the permissions. Limits that do not depend on the profile are kept."""
    given = [name for name in ("sandbox_policy", "permission_profile", "permissions") if name in changes]
    if len(given) > 1:
        text = f"{' and '.join(given)} set the same thing"
        raise ThreadError(text, slug="bad-request", hint="Pass only one of them.")
    now = settings.permissions
    wanted = now
    if "sandbox_policy" in changes:
        policy = changes.pop("sandbox_policy")
        # A client that sends back the settings it received does not intend to widen a profile.
        wanted = now if policy == now.sandbox_policy else permissions_of(policy)
    elif "permission_profile" in changes:
        wanted = Permissions(profile=changes.pop("permission_profile"))
    elif "permissions" in changes:
        wanted = named_permissions(changes.pop("permissions"))
    roots = changes.pop("workspace_roots", None if wanted is not now else now.workspace_roots)
    if roots is None:
        roots = (*wanted.workspace_roots,)
    if wanted is not now or roots != now.workspace_roots:
        changes["permissions"] = wanted.evolve(workspace_roots=tuple(roots), options=now.options)
    return changes


SNAPSHOT_FIELDS = frozenset(
    (
        "turn_id",
        "model_provider",
        "cwd",
        "approval_policy",
        "sandbox_policy",
        "permission_profile",
        "active_permission_profile",
        "model",
        "effort",
        "summary",
        "collaboration_mode",
    )
)
"""The fields of the record of a turn's settings that are the kernel's, whether or not they have a value."""


def settings_snapshot(settings: Settings) -> dict[str, Any]:
    """Return the settings of a turn as plain JSON data (wire: ``turn_context`` and ``thread_settings``)."""
    snapshot = {
        "cwd": str(settings.cwd),
        "approval_policy": to_wire(settings.approval_policy),
        "sandbox_policy": to_wire(settings.sandbox_policy),
        "permission_profile": to_wire(settings.permissions.profile),
        "active_permission_profile": settings.permissions.active,
        "model": settings.model,
        "effort": settings.reasoning_effort,
        "summary": settings.reasoning_summary or "auto",
        "environments": None
        if settings.environments is None
        else [to_wire(environment) for environment in settings.environments],
        "collaboration_mode": None if settings.collaboration_mode is None else to_wire(settings.collaboration_mode),
    }
    return {key: value for key, value in snapshot.items() if value is not None}


def session_configured(conversation: Conversation, past: Sequence[EventMsg]) -> SessionConfiguredEvent:
    """Return the first event of a thread, with its identity and settings."""
    settings = conversation.settings
    return SessionConfiguredEvent(
        session_id=conversation.id,
        thread_id=conversation.id,
        model=settings.model,
        model_provider_id=settings.provider.id,
        approval_policy=settings.approval_policy,
        sandbox_policy=settings.sandbox_policy,
        cwd=str(settings.cwd),
        permission_profile=settings.permissions.profile,
        active_permission_profile=settings.permissions.active,
        reasoning_effort=settings.reasoning_effort,
        forked_from_id=conversation.meta.forked_from_id,
        rollout_path=conversation.journal.path,
        initial_messages=tuple(past) or None,
    )
