"""The selection of environments in the settings of a thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.environments import (
    LOCAL_ENVIRONMENT,
    EnvironmentSelection,
    EnvironmentSelections,
)
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.toolkit.environments import environments_of

__all__ = ["NOWHERE", "keep_environments", "selected", "settled", "within_environments"]

NOWHERE = FileAccess(otherwise=AccessMode.DENY)
"""The access of a turn without an environment: no file, and no network."""


def selected(wanted: EnvironmentSelections) -> dict[str, Any]:
    """Return the changes of settings that a selection of environments means.

    Raises:
        ThreadError: It cannot be used. The texts are Codex's.
    """
    seen: set[str] = set()
    for environment in wanted.environments:
        _check(environment)
        if environment.environment_id in seen:
            raise _refused(f"duplicate turn environment id `{environment.environment_id}`", "Name each of them once.")
        seen.add(environment.environment_id)
    changes: dict[str, Any] = {"environments": wanted.environments}
    primary = next(iter(wanted.environments), None)
    folder = wanted.legacy_fallback_cwd if primary is None else primary.cwd
    if folder is not None:
        _check_path(folder, "invalid legacy_fallback_cwd")
        changes["cwd"] = Path(folder)
    if primary is not None and primary.workspace_roots is not None:
        changes["workspace_roots"] = _roots(primary, primary.workspace_roots)
    return changes


def settled(settings: Settings) -> Settings:
    """Return the settings of a program with what their environments mean. Raises ThreadError as :func:`selected`."""
    if settings.environments is None:
        return settings
    changes = selected(EnvironmentSelections(environments=settings.environments))
    roots = changes.pop("workspace_roots", None)
    if roots is not None:
        changes["permissions"] = settings.permissions.evolve(workspace_roots=roots)
    return settings.evolve(**changes)


def _check(environment: EnvironmentSelection) -> None:
    given: object = environment
    if not isinstance(given, EnvironmentSelection):
        raise _refused(f"an environment is {given!r:.80}", "Pass values of EnvironmentSelection.")
    if environment.environment_id != LOCAL_ENVIRONMENT:
        hint = f"The environments are: {LOCAL_ENVIRONMENT}."
        raise _refused(f"unknown turn environment id `{environment.environment_id}`", hint)
    _check_path(environment.cwd, f"invalid cwd for environment `{environment.environment_id}`")
    for root in environment.workspace_roots or ():
        _check_path(root, f"invalid runtime workspace root for environment `{environment.environment_id}`")


def _check_path(path: str, what: str) -> None:
    if "\0" in path:
        raise _refused(f"{what}: path {path!r} contains a NUL character", "Send the path of a folder.")
    if not PurePosixPath(path).is_absolute():
        raise _refused(
            f"{what}: path `{path}` does not use absolute POSIX or Windows path syntax", "Send the whole path."
        )


def _roots(environment: EnvironmentSelection, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of the workspace besides ``cwd``. Raises ThreadError if ``cwd`` would not be one of them."""
    if environment.cwd not in roots:
        raise _refused(
            f"the workspace roots of environment `{environment.environment_id}` do not contain its cwd",
            "Add the cwd to the roots: the working folder always belongs to the workspace.",
        )
    return tuple(root for root in roots if root != environment.cwd)


def _refused(fact: str, hint: str) -> ThreadError:
    return ThreadError(fact, slug="environment", hint=hint)


def _with_environments(settings: Settings, environments: tuple[EnvironmentSelection, ...]) -> Settings:
    """Return the settings with some of their environments. The folder becomes that of the first one, if there is one."""
    cwd = Path(environments[0].cwd) if environments else settings.cwd
    return settings.evolve(environments=environments, cwd=cwd)


def within_environments(settings: Settings, above: Settings) -> Settings:
    """Return the settings of a child, without environments that its parent does not have now."""
    if above.environments is None and settings.environments is None:
        return settings
    allowed = {environment.environment_id for environment in environments_of(above)}
    own = environments_of(settings)
    kept = tuple(environment for environment in own if environment.environment_id in allowed)
    return settings if kept == own else _with_environments(settings, kept)


def keep_environments(stored: StoredThread, settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of a resumed thread with the environments of its last turn, unless they name some; and warnings.

    A thread that had none has none again. The folder on this machine is that of the settings, as for every resumed thread.
    """
    before = (stored.last_turn_context or {}).get("environments")
    if settings.environments is not None or not isinstance(before, list):
        return settings, ()
    ids = [item.get("environment_id") for item in before if isinstance(item, Mapping)]
    if LOCAL_ENVIRONMENT in ids:
        kept: tuple[EnvironmentSelection, ...] | None = None
    else:
        kept = ()
    missing = [name for name in ids if isinstance(name, str) and name != LOCAL_ENVIRONMENT]
    warnings = tuple(
        f"skipping unknown turn environment `{name}`: the thread was last used with it" for name in missing
    )
    return (settings if kept is None else settings.evolve(environments=kept)), warnings
