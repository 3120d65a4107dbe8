"""The ``.rules`` files that apply in a folder: files of the system, of the user, and of a trusted project."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.projects import is_trusted, is_trusted_itself, project_root
from codex_plugin_execpolicy.rules import RuleSet
from codex_plugin_execpolicy.settings import own_setting

if TYPE_CHECKING:
    from codex_plugin_execpolicy.interpretation import Deadline
    from codex_plugin_execpolicy.rulefile import RuleFile

__all__ = ["SYSTEM_RULES", "LoadedRules", "RuleLayers", "load_rules", "read_file"]

SYSTEM_RULES = "/etc/codex/rules"
"""The rules of the machine's administrator. There may be more in ``requirements.toml`` next to the folder."""

_REQUIREMENTS = "requirements.toml"
_FRESH_NS = 100_000_000
"""A file that changed within this time may change again without new timestamps, because file systems have coarse clocks."""


class LoadedRules:
    """The rules of some folders.

    Attributes:
        problems: One sentence for each file with an error.
    """

    def __init__(self, rules: RuleSet, problems: tuple[str, ...] = ()) -> None:
        self.rules = rules
        self.problems = problems


class _Loaded:
    """The loaded rules, and the state of the files at that time.

    Attributes:
        settled: Whether no file is so new that its timestamps might not show the next change.
    """

    def __init__(self, state: tuple[object, ...], rules: LoadedRules, *, settled: bool) -> None:
        self.state = state
        self.rules = rules
        self.settled = settled


class RuleLayers:
    """Keeps the rules of each folder in memory, and reads them again when a file was changed, added or removed.

    The check takes one system call for each place that may contain rules, and one for each file.

    Args:
        system: The folder of the administrator's rules.
        ignore_rules: Whether to ignore all rules but those.
    """

    def __init__(self, system: str = SYSTEM_RULES, *, ignore_rules: bool = False) -> None:
        self._system = system
        self._ignore_rules = ignore_rules
        self._folders: dict[tuple[str, Path | None], tuple[Mapping[str, Any], tuple[str, ...], frozenset[str]]] = {}
        self._loaded: dict[tuple[str, ...], _Loaded] = {}

    def at(self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> LoadedRules:
        """Return the rules that apply in a folder."""
        folders, severe = self._known_places(cwd, codex_home, config)
        state = tuple(map(_state, folders))
        loaded = self._loaded.get(folders)
        if loaded is None or not loaded.settled or loaded.state != state:
            loaded = self._loaded[folders] = _Loaded(
                state, load_rules(_files(folders), severe), settled=_is_settled(state)
            )
        return loaded.rules

    def files(self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> Iterator[str]:
        """Yield the paths on which the rules of a folder depend."""
        folders, _ = self._known_places(cwd, codex_home, config)
        yield from folders
        yield from map(str, _files(folders))

    def _known_places(
        self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], frozenset[str]]:
        """Return the places that may contain rules, and the places where only rules that ask or forbid count."""
        key = (str(cwd), codex_home)
        known = self._folders.get(key)
        if known is None or known[0] is not config:
            places = dict(self._places(cwd, codex_home, config))
            severe = frozenset(place for place, is_severe in places.items() if is_severe)
            known = self._folders[key] = (config, tuple(places), severe)
        return known[1:]

    def _places(self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
        """Return files and folders, from the lowest layer to the highest, and whether only rules that ask or forbid count there."""
        yield self._system, False
        yield os.path.join(os.path.dirname(self._system), _REQUIREMENTS), False  # noqa: PTH118, PTH120
        if own_setting(config, "ignore_rules", self._ignore_rules):
            return
        if codex_home is not None:
            yield str(codex_home / "rules"), False
        for folder in _trusted_folders(cwd, config):
            if folder / ".codex" != codex_home:
                yield str(folder / ".codex" / "rules"), not is_trusted_itself(config["projects"], folder)


def load_rules(files: Iterable[Path], severe: Container[str] = ()) -> LoadedRules:
    """Return the valid rules of all files.

    In a file with an error, the readable rules that ask or forbid still apply, because a typing error must not disable them. The
    rules that allow are ignored. This takes some seconds at most, whatever the files contain.

    Args:
        severe: Folders in which only rules that ask or forbid apply, because commands may have written the other rules.
    """
    rules, problems = RuleSet(), []
    deadline: Deadline | None = None
    for file in files:
        if deadline is None:
            from codex_plugin_execpolicy.interpretation import Deadline

            deadline = Deadline()
        found, mistake = _usable(file, deadline)
        if mistake is not None:
            problems.append(f"{mistake}; what {file} allows is ignored")
            found = found.severe()
        rules.update(found.severe() if str(file.parent) in severe else found)
    return LoadedRules(rules, tuple(problems))


def read_file(file: Path) -> RuleFile:
    """Return the rules of a ``.rules`` file or of a ``requirements.toml``. Raises ConfigError."""
    from codex_plugin_execpolicy.rulefile import RuleFile, read_rules

    if file.name == _REQUIREMENTS:
        from codex_plugin_execpolicy.requirements import read_requirements

        return RuleFile(read_requirements(file), ())
    return read_rules(file)


def _usable(file: Path, deadline: Deadline) -> tuple[RuleSet, ConfigError | None]:
    """Return the readable rules of a file, and its error."""
    if file.name == _REQUIREMENTS:
        from codex_plugin_execpolicy.requirements import read_requirements, readable_requirements

        try:
            return read_requirements(file), None
        except ConfigError as error:
            return readable_requirements(file), error
    from codex_plugin_execpolicy.rulefile import usable_rules

    return usable_rules(file, deadline)


def _files(places: tuple[str, ...]) -> Iterator[Path]:
    for place in places:
        if place.endswith(_REQUIREMENTS):
            if os.path.lexists(place):
                yield Path(place)
            continue
        names = _names(place)
        if names is None:
            yield Path(place)  # it cannot be read either, and that error has the reason
        for name in names or ():
            yield Path(place, name)


def _names(folder: str) -> list[str] | None:
    """Return the names of the rules files in a folder. None if the folder exists but cannot be listed."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".rules"))  # noqa: PTH208  # asked per command
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None


def _state(place: str) -> object:
    """Return a value that changes when a rules file in the folder is written, created or removed."""
    if place.endswith(_REQUIREMENTS):
        return _file_state(place)
    try:
        os.stat(place)  # noqa: PTH116
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno
    names = _names(place)
    return "not readable" if names is None else tuple((name, _file_state(f"{place}/{name}")) for name in names)


def _file_state(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino


def _is_settled(state: tuple[object, ...]) -> bool:
    now = time.time_ns()
    return all(abs(now - changed) > _FRESH_NS for changed in _changes(state))


def _changes(state: object) -> Iterator[int]:
    """Return the times of the last change of a state's files."""
    match state:
        case (int(changed), int(), int(), int()):
            yield changed
        case tuple():
            for part in state:
                yield from _changes(part)


def _trusted_folders(cwd: Path, config: Mapping[str, Any]) -> list[Path]:
    """Return the folders from the project's root down to the folder, as for ``.codex/config.toml``; none without trust."""
    projects = config.get("projects")
    if not isinstance(projects, Mapping) or not is_trusted(projects, cwd):
        return []
    markers = config.get("project_root_markers")
    root = project_root(cwd, [str(name) for name in markers] if isinstance(markers, list) else (".git",))
    below = [cwd, *cwd.parents]
    return below[: below.index(root) + 1][::-1]
