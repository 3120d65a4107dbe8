"""The selection of environments in the settings of a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from codex_framework.contract.roles.environments import Environment, EnvironmentSource
from codex_framework.contract.roles.facts import EnvironmentState
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.loader.offers import Offer
from codex_framework.toolkit.selected_environments import environments_of

__all__ = [
    "NOWHERE",
    "Environments",
    "apply_environments",
    "keep_environments",
    "select_environments",
    "within_environments",
]

NOWHERE = FileAccess(otherwise=AccessMode.DENY)
"""The access of a turn without an environment: no file, and no network."""


class Environments:
    """The environments that a kernel knows: this machine, and the environments of plugins.

    Args:
        sources: The offers of plugins. If two have the same id, the first one is used.

    Attributes:
        offered: The environments of plugins, by id.
    """

    def __init__(self, sources: Sequence[Offer[EnvironmentSource]] = ()) -> None:
        self.offered: dict[str, Environment] = {}
        for source in sources:
            for environment in source.item.environments:
                if environment.id != LOCAL_ENVIRONMENT:
                    self.offered.setdefault(environment.id, environment)
        self._has_local = all(source.item.has_local for source in sources)
        wishes = (source.item.default for source in sources if source.item.default is not None)
        self._default = next(wishes, (LOCAL_ENVIRONMENT,))

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all environments."""
        return (*((LOCAL_ENVIRONMENT,) if self._has_local else ()), *self.offered)

    def default(self, cwd: Path) -> tuple[EnvironmentSelection, ...] | None:
        """Return the selection for a folder if a client selects none, unless it is this machine alone."""
        found = tuple(EnvironmentSelection(name, str(cwd)) for name in self._default if name in self.ids)
        return None if [each.environment_id for each in found] == [LOCAL_ENVIRONMENT] else found

    def faulty(self, settings: Settings) -> frozenset[str]:
        """Return the ids of the selected environments that cannot be used at the moment."""
        chosen = [each.environment_id for each in settings.environments or ()]
        return frozenset(name for name in chosen if name in self.offered and self.offered[name].fault)

    def states(self, settings: Settings, shell: str) -> Mapping[str, EnvironmentState]:
        """Return the states of selected environments; nothing if all of them are this machine, whose shell is ``shell``."""
        chosen = [each.environment_id for each in settings.environments or ()]
        if all(name not in self.offered for name in chosen):
            return {}
        return {
            name: _state(self.offered[name]) if name in self.offered else EnvironmentState(shell=shell)
            for name in chosen
        }


def _state(environment: Environment) -> EnvironmentState:
    info = environment.info
    return EnvironmentState(shell="" if info is None else info.shell, fault=environment.fault)


def select_environments(wanted: EnvironmentSelections, known: Environments) -> dict[str, Any]:
    """Return the changes of settings for a selection of environments. Their folder is this machine's.

    Raises:
        ThreadError: The selection cannot be used. The texts are Codex's.
    """
    seen: set[str] = set()
    for environment in wanted.environments:
        _check(environment, known)
        if environment.environment_id in seen:
            raise _refusal(f"duplicate turn environment id `{environment.environment_id}`", "Name each of them once.")
        seen.add(environment.environment_id)
    changes: dict[str, Any] = {"environments": wanted.environments}
    local = next((each for each in wanted.environments if each.environment_id == LOCAL_ENVIRONMENT), None)
    folder = wanted.legacy_fallback_cwd if local is None else local.cwd
    if folder is not None:
        _check_path(folder, "invalid legacy_fallback_cwd")
        changes["cwd"] = Path(folder)
    if local is not None and local.workspace_roots is not None:
        changes["workspace_roots"] = _roots(local, local.workspace_roots)
    return changes


def apply_environments(settings: Settings, known: Environments) -> Settings:
    """Return the settings of a program with what their environments mean. Raises ThreadError as :func:`select_environments`."""
    if settings.environments is None:
        chosen = known.default(settings.cwd)
        return settings if chosen is None else settings.evolve(environments=chosen)
    changes = select_environments(EnvironmentSelections(environments=settings.environments), known)
    roots = changes.pop("workspace_roots", None)
    if roots is not None:
        changes["permissions"] = settings.permissions.evolve(workspace_roots=roots)
    return settings.evolve(**changes)


def _check(environment: EnvironmentSelection, known: Environments) -> None:
    given: object = environment
    if not isinstance(given, EnvironmentSelection):
        raise _refusal(f"an environment is {given!r:.80}", "Pass values of EnvironmentSelection.")
    if environment.environment_id not in known.ids:
        hint = f"The environments are: {', '.join(known.ids) or 'none'}."
        raise _refusal(f"unknown turn environment id `{environment.environment_id}`", hint)
    _check_path(environment.cwd, f"invalid cwd for environment `{environment.environment_id}`")
    for root in environment.workspace_roots or ():
        _check_path(root, f"invalid runtime workspace root for environment `{environment.environment_id}`")
    if environment.workspace_roots is not None:
        _roots(environment, environment.workspace_roots)


def _check_path(path: str, what: str) -> None:
    if "\0" in path:
        raise _refusal(f"{what}: path {path!r} contains a NUL character", "Send the path of a folder.")
    if not PurePosixPath(path).is_absolute():
        raise _refusal(
            f"{what}: path `{path}` does not use absolute POSIX or Windows path syntax", "Send the whole path."
        )


def _roots(environment: EnvironmentSelection, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of the workspace besides ``cwd``. Raises ThreadError if ``cwd`` would not be one of them."""
    if environment.cwd not in roots:
        raise _refusal(
            f"the workspace roots of environment `{environment.environment_id}` do not contain its cwd",
            "Add the cwd to the roots: the working folder always belongs to the workspace.",
        )
    return tuple(root for root in roots if root != environment.cwd)


def _refusal(fact: str, hint: str) -> ThreadError:
    return ThreadError(fact, slug="environment", hint=hint)


def within_environments(settings: Settings, above: Settings) -> Settings:
    """Return the settings of a child, without environments that its parent does not have now."""
    if above.environments is None and settings.environments is None:
        return settings
    allowed = {environment.environment_id for environment in environments_of(above)}
    own = environments_of(settings)
    kept = tuple(environment for environment in own if environment.environment_id in allowed)
    return settings if kept == own else settings.evolve(environments=kept)


def keep_environments(
    stored: StoredThread, settings: Settings, known: Environments
) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of a resumed thread with the environments of its last turn, and warnings.

    Environments in the settings take precedence. A thread without environments stays without. The folder on this machine comes
    from the settings, as for every resumed thread.
    """
    before = (stored.last_turn_context or {}).get("environments")
    if settings.environments is not None or not isinstance(before, list):
        return settings, ()
    recorded = [_read_selection(item, settings.cwd) for item in before]
    kept = tuple(each for each in recorded if each is not None and each.environment_id in known.ids)
    gone = [each.environment_id for each in recorded if each is not None and each.environment_id not in known.ids]
    warnings = tuple(f"skipping unknown turn environment `{name}`: the thread was last used with it" for name in gone)
    only_local = [each.environment_id for each in kept] == [LOCAL_ENVIRONMENT] and known.default(settings.cwd) is None
    return settings.evolve(environments=None if only_local else kept), warnings


def _read_selection(item: object, cwd: Path) -> EnvironmentSelection | None:
    """Return a selection of a record, or None if it is damaged."""
    if not isinstance(item, Mapping):
        return None
    name, folder = item.get("environment_id"), item.get("cwd")
    if name == LOCAL_ENVIRONMENT:
        return EnvironmentSelection(LOCAL_ENVIRONMENT, str(cwd))
    if not isinstance(name, str) or not isinstance(folder, str) or not folder.startswith("/") or "\0" in folder:
        return None
    roots = item.get("workspace_roots")
    whole = isinstance(roots, list) and all(isinstance(root, str) and root.startswith("/") for root in roots)
    return EnvironmentSelection(name, folder, tuple(roots) if isinstance(roots, list) and whole else None)
