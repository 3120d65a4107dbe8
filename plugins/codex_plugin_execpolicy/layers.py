"""Which ``.rules`` files hold in a folder: those of the system, of the person, and of a project that the person trusts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codex_framework.errors import ConfigError
from codex_framework.value import Value
from codex_plugin_execpolicy.rules import RuleSet

__all__ = ["SYSTEM_RULES", "LoadedRules", "RuleLayers", "load_rules"]

SYSTEM_RULES = "/etc/codex/rules"
"""The rules of the machine's administrator."""


class LoadedRules(Value):
    """The rules of some folders.

    Attributes:
        problems: One sentence for each file that was left out.
    """

    rules: RuleSet
    problems: tuple[str, ...] = ()


class RuleLayers:
    """Keeps the rules of each folder in memory, and reads them anew when a file has changed, come or gone.

    To see that costs one system call for each folder that may hold rules, and one for each file.
    """

    def __init__(self, system: str = SYSTEM_RULES) -> None:
        self._system = system
        self._folders: dict[tuple[str, Path | None], tuple[Mapping[str, Any], tuple[str, ...]]] = {}
        self._loaded: dict[tuple[str, ...], tuple[tuple[object, ...], LoadedRules]] = {}

    def at(self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> LoadedRules:
        """The rules that hold in a folder."""
        key = (str(cwd), codex_home)
        known = self._folders.get(key)
        if known is None or known[0] is not config:
            known = self._folders[key] = (config, tuple(_folders(self._system, cwd, codex_home, config)))
        folders = known[1]
        state = tuple(map(_state, folders))
        loaded = self._loaded.get(folders)
        if loaded is None or loaded[0] != state:
            loaded = self._loaded[folders] = (state, load_rules(_files(folders)))
        return loaded[1]


def load_rules(files: Iterator[Path]) -> LoadedRules:
    """The rules of all files that can be used."""
    rules, problems = RuleSet(), []
    for file in files:
        from codex_plugin_execpolicy.rulefile import read_rules

        try:
            rules.update(read_rules(file).rules)
        except ConfigError as error:
            problems.append(f"{error}; none of the rules in {file} are used")
    return LoadedRules(rules, tuple(problems))


def _files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for name in _names(folder):
            yield Path(folder, name)


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".rules"))  # noqa: PTH208  # asked per command
    except OSError:  # no folder, no rules; one that may not be listed belongs to nobody here
        return []


def _state(folder: str) -> object:
    """Something that changes when a rules file in the folder is written, made or removed."""
    try:
        os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return tuple((name, _written(f"{folder}/{name}")) for name in _names(folder))


def _written(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _folders(system: str, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> Iterator[str]:
    """From the lowest layer to the highest."""
    yield system
    if _ignored(config):
        return
    if codex_home is not None:
        yield str(codex_home / "rules")
    for folder in _trusted_folders(cwd, config):
        if folder / ".codex" != codex_home:
            yield str(folder / ".codex" / "rules")


def _ignored(config: Mapping[str, Any]) -> bool:
    """Whether ``framework.plugins.execpolicy.ignore_rules`` is set: only the system's rules count."""
    table: Any = config
    for name in ("framework", "plugins", "execpolicy"):
        table = table.get(name) if isinstance(table, Mapping) else None
    return isinstance(table, Mapping) and table.get("ignore_rules") is True


def _trusted_folders(cwd: Path, config: Mapping[str, Any]) -> list[Path]:
    """From the checkout's root down to the folder, if ``[projects]`` says of one of both that it is trusted; else none."""
    below = [cwd, *cwd.parents]
    root = next((folder for folder in below if os.path.lexists(f"{folder}/.git")), cwd)
    projects = config.get("projects")
    if not isinstance(projects, Mapping) or _trust(projects, cwd, root) != "trusted":
        return []
    return below[: below.index(root) + 1][::-1]


def _trust(projects: Mapping[str, Any], cwd: Path, root: Path) -> object:
    for folder in (str(cwd), os.path.realpath(cwd), str(root), os.path.realpath(root)):
        entry = projects.get(folder)
        if isinstance(entry, Mapping) and isinstance(level := entry.get("trust_level"), str):
            return level
    return None
