"""Which ``.rules`` files hold in a folder: those of the system, of the person, and of a project that the person trusts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.projects import is_trusted, project_root
from codex_plugin_execpolicy.rules import RuleSet
from codex_plugin_execpolicy.settings import own_setting

if TYPE_CHECKING:
    from codex_plugin_execpolicy.interpretation import Deadline
    from codex_plugin_execpolicy.rulefile import RuleFile

__all__ = ["SYSTEM_RULES", "LoadedRules", "RuleLayers", "load_rules", "read_file"]

SYSTEM_RULES = "/etc/codex/rules"
"""The rules of the machine's administrator. Next to the folder may stand ``requirements.toml``, with more of them."""

_REQUIREMENTS = "requirements.toml"
_FRESH_NS = 100_000_000
"""A file changed less than this long ago may change again without its times showing it (clocks of file systems are coarse)."""


class LoadedRules:
    """The rules of some folders.

    Attributes:
        problems: One sentence for each file that was left out.
    """

    def __init__(self, rules: RuleSet, problems: tuple[str, ...] = ()) -> None:
        self.rules = rules
        self.problems = problems


class _Loaded:
    """What was read, and what was there then.

    Attributes:
        settled: No file is so new that its times might not show the next change.
    """

    def __init__(self, state: tuple[object, ...], rules: LoadedRules, *, settled: bool) -> None:
        self.state = state
        self.rules = rules
        self.settled = settled


class RuleLayers:
    """Keeps the rules of each folder in memory, and reads them anew when a file has changed, come or gone.

    To see that costs one system call for each place that may hold rules, and one for each file.

    Args:
        system: The folder of the administrator's rules.
        ignore_rules: Whether to ignore all rules but those.
    """

    def __init__(self, system: str = SYSTEM_RULES, *, ignore_rules: bool = False) -> None:
        self._system = system
        self._ignore_rules = ignore_rules
        self._folders: dict[tuple[str, Path | None], tuple[Mapping[str, Any], tuple[str, ...]]] = {}
        self._loaded: dict[tuple[str, ...], _Loaded] = {}

    def at(self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> LoadedRules:
        """The rules that hold in a folder."""
        key = (str(cwd), codex_home)
        known = self._folders.get(key)
        if known is None or known[0] is not config:
            known = self._folders[key] = (config, tuple(self._places(cwd, codex_home, config)))
        folders = known[1]
        state = tuple(map(_state, folders))
        loaded = self._loaded.get(folders)
        if loaded is None or not loaded.settled or loaded.state != state:
            loaded = self._loaded[folders] = _Loaded(state, load_rules(_files(folders)), settled=_settled(state))
        return loaded.rules

    def _places(self, cwd: Path, codex_home: Path | None, config: Mapping[str, Any]) -> Iterator[str]:
        """Files and folders, from the lowest layer to the highest."""
        yield self._system
        yield os.path.join(os.path.dirname(self._system), _REQUIREMENTS)  # noqa: PTH118, PTH120
        if own_setting(config, "ignore_rules", self._ignore_rules):
            return
        if codex_home is not None:
            yield str(codex_home / "rules")
        for folder in _trusted_folders(cwd, config):
            if folder / ".codex" != codex_home:
                yield str(folder / ".codex" / "rules")


def load_rules(files: Iterable[Path]) -> LoadedRules:
    """The rules of all files, as far as they can be used.

    Of a file with a mistake those rules still hold that can be read and that ask or forbid: a slip of the pen must not open what
    somebody has closed. What it allows is left out. This takes some seconds at most, whatever the files say.
    """
    rules, problems = RuleSet(), []
    deadline: Deadline | None = None
    for file in files:
        if deadline is None:
            from codex_plugin_execpolicy.interpretation import Deadline

            deadline = Deadline()
        found, mistake = _usable(file, deadline)
        if mistake is not None:
            problems.append(f"{mistake}; what {file} allows is not used")
            found = found.severe()
        rules.update(found)
    return LoadedRules(rules, tuple(problems))


def read_file(file: Path) -> RuleFile:
    """The rules of a ``.rules`` file, or of a ``requirements.toml``. Raises ConfigError."""
    from codex_plugin_execpolicy.rulefile import RuleFile, read_rules

    if file.name == _REQUIREMENTS:
        from codex_plugin_execpolicy.requirements import read_requirements

        return RuleFile(read_requirements(file), ())
    return read_rules(file)


def _usable(file: Path, deadline: Deadline) -> tuple[RuleSet, ConfigError | None]:
    """The rules of a file as far as they can be read, and what is wrong with it."""
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
            yield Path(place)  # cannot be read either, which says why
        for name in names or ():
            yield Path(place, name)


def _names(folder: str) -> list[str] | None:
    """Of the rules files in a folder; None if it is there and cannot be looked into."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".rules"))  # noqa: PTH208  # asked per command
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None


def _state(place: str) -> object:
    """Something that changes when a rules file in the folder is written, made or removed."""
    if place.endswith(_REQUIREMENTS):
        return _written(place)
    try:
        os.stat(place)  # noqa: PTH116
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno
    names = _names(place)
    return "not readable" if names is None else tuple((name, _written(f"{place}/{name}")) for name in names)


def _written(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino


def _settled(state: tuple[object, ...]) -> bool:
    now = time.time_ns()
    return all(abs(now - changed) > _FRESH_NS for changed in _changes(state))


def _changes(state: object) -> Iterator[int]:
    """The times at which the files of a state were changed last."""
    match state:
        case (int(changed), int(), int(), int()):
            yield changed
        case tuple():
            for part in state:
                yield from _changes(part)


def _trusted_folders(cwd: Path, config: Mapping[str, Any]) -> list[Path]:
    """From the project's root down to the folder, as for ``.codex/config.toml``; none if nobody trusts the project."""
    projects = config.get("projects")
    if not isinstance(projects, Mapping) or not is_trusted(projects, cwd):
        return []
    markers = config.get("project_root_markers")
    root = project_root(cwd, [str(name) for name in markers] if isinstance(markers, list) else (".git",))
    below = [cwd, *cwd.parents]
    return below[: below.index(root) + 1][::-1]
