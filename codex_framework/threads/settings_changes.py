"""Changes of a thread's settings, and the form of settings for clients and records."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.config.settings import service_tier
from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.events import EventMsg, SessionConfiguredEvent
from codex_framework.contract.protocol.ops import ThreadSettingsOverrides
from codex_framework.contract.protocol.permissions import PermissionProfile
from codex_framework.contract.protocol.policies import CollaborationMode
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.value import fields_of
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.environments import Environments, select_environments

__all__ = ["changed_settings", "first_event", "settings_snapshot", "turn_record"]

_RENAMED = {"effort": "reasoning_effort", "summary": "reasoning_summary"}

_DEFAULTED = tuple(_RENAMED.values())
"""Settings for which an empty text is the default."""

_WORDS = {
    "reasoning_summary": ("auto", "concise", "detailed", "none", ""),
    "approvals_reviewer": ("user", "auto_review", "guardian_subagent"),
    "personality": ("none", "friendly", "pragmatic"),
}
"""Settings with a fixed set of values."""

_FOLDERS = ("workspace_roots", "profile_workspace_roots")


def changed_settings(
    settings: Settings,
    overrides: ThreadSettingsOverrides,
    named_permissions: Callable[[str], Permissions],
    named_provider: Callable[[str], ProviderInfo],
    environments: Environments,
) -> Settings | None:
    """Return the settings with overrides applied, or None if these change nothing.

    Raises:
        CodexError: Two overrides contradict each other, or no profile, or no provider, has the given name.
    """
    given = {each.name: getattr(overrides, each.name) for each in fields_of(type(overrides))}
    changes = {_RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    _check_words(changes)
    changes |= {name: None for name in _DEFAULTED if changes.get(name) == ""}
    changes.pop("windows_sandbox_level", None)
    if "service_tier" in changes:
        changes["service_tier"] = service_tier(changes["service_tier"])
    if not changes:
        return None
    if "collaboration_mode" in changes:
        changes |= _mode_settings(changes["collaboration_mode"])
    if "cwd" in changes:
        changes["cwd"] = Path(os.path.normpath(settings.cwd / _check_path("cwd", changes["cwd"])))
        changes.setdefault("environments", None)
    if changes.get("environments") is not None:
        changes |= select_environments(changes["environments"], environments)
    elif "environments" in changes:
        changes["environments"] = environments.default(changes["cwd"])
    if "model_provider" in changes:
        changes["provider"] = named_provider(changes.pop("model_provider"))
    return settings.evolve(**_with_permissions(settings, changes, named_permissions))


def _check_words(changes: Mapping[str, Any]) -> None:
    """Refuse a value that its setting does not allow, or a folder that is not absolute. Raises ThreadError."""
    for name, words in _WORDS.items():
        value = changes.get(name)
        if value is not None and value not in words:
            known = ", ".join(f"`{word}`" for word in words if word)
            fact = f"{name}: unknown variant `{str(value)[:80]}`, expected one of {known}"
            raise ThreadError(fact, slug="bad-request", hint="Use one of these.")
    if not str(changes.get("model", "-")).strip():
        raise ThreadError("model: it is empty", slug="bad-request", hint="Send the name of a model, or leave it out.")
    for name in _FOLDERS:
        for folder in changes.get(name) or ():
            if not os.path.isabs(_check_path(name, folder)):  # noqa: PTH117
                fact = f"{name}: the path {folder!r} is not absolute"
                raise ThreadError(fact, slug="bad-request", hint="Send the whole path of the folder.")


def _check_path(name: str, path: str) -> str:
    """Return a path that a client has sent. Raises ThreadError if no path can be like this."""
    if "\0" in path:
        raise ThreadError(f"{name}: the path {path!r} contains a NUL character", slug="bad-request", hint="Remove it.")
    return path


def _mode_settings(mode: CollaborationMode) -> dict[str, Any]:
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
    active = changes.pop("active_permission_profile", None)
    if active is not None and "permission_profile" not in changes:
        _same_name(active, changes.setdefault("permissions", _name_of(active)))
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
        wanted = _profile_permissions(changes.pop("permission_profile"), active, named_permissions)
    elif "permissions" in changes:
        wanted = named_permissions(changes.pop("permissions"))
    roots = changes.pop("workspace_roots", None)
    of_profile = changes.pop("profile_workspace_roots", None)
    if of_profile is not None:
        roots = tuple(dict.fromkeys((*(roots or ()), *of_profile)))
    elif roots is None:
        roots = wanted.workspace_roots
    if wanted is not now or roots != now.workspace_roots:
        changes["permissions"] = wanted.evolve(workspace_roots=tuple(roots), options=now.options)
    return changes


def _profile_permissions(
    profile: PermissionProfile,
    active: Mapping[str, Any] | None,
    named_permissions: Callable[[str], Permissions],
) -> Permissions:
    """Return the permissions of a profile. Its name, if any, affects only the display of clients.

    Raises:
        CodexError: It is not the profile of this name.
    """
    if active is None:
        return Permissions(profile=profile)
    named = named_permissions(_name_of(active))
    if named.profile != profile:
        fact = f"permission_profile is not the profile `{named.id}` that active_permission_profile names"
        raise ThreadError(fact, slug="bad-request", hint="Leave out active_permission_profile.")
    return named


def _name_of(active: Mapping[str, Any]) -> str:
    name = active.get("id")
    if not isinstance(name, str):
        fact = "active_permission_profile has no id"
        raise ThreadError(fact, slug="bad-request", hint='Send {"id": "NAME"}.')
    return name


def _same_name(active: Mapping[str, Any], name: str) -> None:
    if _name_of(active) != name:
        fact = "permissions and active_permission_profile name different profiles"
        raise ThreadError(fact, slug="bad-request", hint="Pass only one of them.")


def settings_snapshot(settings: Settings) -> dict[str, Any]:
    """Return settings as plain JSON data (wire: ``thread_settings``)."""
    return _present(_fields(settings))


def turn_record(settings: Settings, turn_id: str, provider: str | None, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a turn for its record (wire: ``turn_context``).

    Args:
        provider: The provider, if it differs from the thread's.
        recorded: Additions of context sources. They cannot set or remove a field of the kernel.
    """
    own = {"turn_id": turn_id, **_fields(settings), "model_provider": provider}
    return {name: value for name, value in recorded.items() if name not in own} | _present(own)


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _fields(settings: Settings) -> dict[str, Any]:
    return {
        "cwd": str(settings.cwd),
        "approval_policy": to_wire(settings.approval_policy),
        "sandbox_policy": to_wire(settings.sandbox_policy),
        "permission_profile": to_wire(settings.permissions.profile),
        "active_permission_profile": settings.permissions.active,
        "model": settings.model,
        "effort": settings.reasoning_effort,
        "summary": settings.reasoning_summary or "auto",
        "service_tier": settings.service_tier,
        "approvals_reviewer": settings.approvals_reviewer,
        "personality": settings.personality,
        "environments": None
        if settings.environments is None
        else [to_wire(environment) for environment in settings.environments],
        "collaboration_mode": None if settings.collaboration_mode is None else to_wire(settings.collaboration_mode),
    }


def first_event(conversation: Conversation, past: Sequence[EventMsg]) -> SessionConfiguredEvent:
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
        service_tier=settings.service_tier,
        approvals_reviewer=settings.approvals_reviewer or conversation.config.get("approvals_reviewer") or "user",
        parent_thread_id=_find_text(conversation.meta.extra, "parent_thread_id"),
        thread_source=_find_text(conversation.meta.extra, "thread_source"),
        forked_from_id=conversation.meta.forked_from_id,
        rollout_path=conversation.journal.path,
        initial_messages=tuple(past) or None,
    )


def _find_text(extra: Mapping[str, Any], name: str) -> str | None:
    value = extra.get(name)
    return value if isinstance(value, str) else None
