"""Rules that leave files out of a search: ``.gitignore``, ``.git/info/exclude``, ``.ignore`` and ``.rgignore``, as ripgrep reads them.

Only regular files of limited size are read, so that a pipe with such a name cannot block.
"""

from __future__ import annotations

# With thousands of paths, pathlib would make a walk several times slower. `codex_lib_confinement.standalone` can load this module.
# ruff: noqa: PTH110, PTH118, PTH120
import os
from collections.abc import Callable, Sequence

from codex_framework.contract.permissions.globs import alternatives, deny_matcher
from codex_framework.toolkit.regular_files import read_regular

__all__ = ["Folder", "IgnoreFile", "glob_matcher", "rules_above"]

Matcher = Callable[[str], object]

_LARGEST_RULES = 1024 * 1024
"""Maximum size of a file of rules, in bytes. A larger one is ignored."""

_BY_RANK = (".rgignore", ".ignore", ".gitignore", "exclude")
"""Files with rules, in order of precedence, independent of their folders. Among files of the same name, the nearest one comes
first.
"""

_OF_GIT = (".gitignore", "exclude")


class IgnoreFile:
    """The rules of one ``.gitignore``.

    Args:
        folder: The folder that contains it. Its rules apply below this folder.
    """

    def __init__(self, folder: str, text: str) -> None:
        self._prefix = folder.rstrip("/") + "/"
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]
        self._rules.reverse()

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether the path is ignored (True), explicitly included (False), or not matched (None). The last rule decides."""
        relative = path.removeprefix(self._prefix)
        for matches, keeps, folders_only in self._rules:
            if (is_folder or not folders_only) and matches(relative):
                return not keeps
        return None


def _rule(line: str) -> tuple[Matcher, bool, bool] | None:
    line = line.rstrip("\r\n")
    if not line.endswith("\\ "):
        line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    try:
        return glob_matcher(line, braces=False), keeps, folders_only
    except ValueError:
        return None  # an invalid glob, which matches nothing in git


def glob_matcher(glob: str, *, braces: bool) -> Matcher:
    """Return a function that matches relative paths against a glob. A glob without a slash matches names in any folder.

    Raises:
        ValueError: The glob is invalid.
    """
    patterns = alternatives(glob.removeprefix("/") if "/" in glob else f"**/{glob}", braces=braces)
    matches = deny_matcher(patterns)
    assert matches is not None
    return matches


class Folder:
    """A folder with its rules and the rules of the folders above.

    Attributes:
        in_repository: Whether it is in a checkout of git, outside of which the rules of git do not apply.
        files: The files of rules that apply, by kind, the nearest first.

    Args:
        kinds: The names of the files of rules that are read; ``exclude`` is ``.git/info/exclude``.
        everywhere: Rules for all repositories.
    """

    def __init__(
        self, path: str, above: Folder | None, kinds: Sequence[str] = _BY_RANK, everywhere: IgnoreFile | None = None
    ) -> None:
        self.path = path
        self._kinds = kinds
        self._everywhere = everywhere
        is_root = os.path.exists(os.path.join(path, ".git"))
        self.in_repository: bool = is_root or (above is not None and above.in_repository)
        self.files: dict[str, tuple[IgnoreFile, ...]] = {}
        for kind in kinds:
            own = self._read(kind)
            further = () if above is None or (kind in _OF_GIT and is_root) else above.files[kind]
            self.files[kind] = further if own is None else (own, *further)
        self._in_order = [file for kind in kinds for file in self.files[kind]]
        if everywhere is not None and self.in_repository:
            self._in_order.append(everywhere)

    def child(self, path: str) -> Folder:
        """Return a folder in this one."""
        return Folder(path, self, self._kinds, self._everywhere)

    def _read(self, kind: str) -> IgnoreFile | None:
        if kind in _OF_GIT and not self.in_repository:
            return None
        name = os.path.join(".git", "info", "exclude") if kind == "exclude" else kind
        try:
            data = read_regular(os.path.join(self.path, name), _LARGEST_RULES)
        except OSError:
            return None  # most folders have no rules
        return IgnoreFile(self.path, data.decode("utf-8", "replace"))

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return the same as :meth:`IgnoreFile.verdict`, by all rules that apply here."""
        for file in self._in_order:
            if (found := file.verdict(path, is_folder=is_folder)) is not None:
                return found
        return None


def rules_above(top: str, kinds: Sequence[str] = _BY_RANK) -> Folder | None:
    """Return the folder above an absolute path, with the rules of all folders up to the root of the file system."""
    parents = []
    while os.path.dirname(top) != top:
        top = os.path.dirname(top)
        parents.append(top)
    folder = None
    for parent in reversed(parents):
        folder = Folder(parent, folder, kinds)
    return folder
