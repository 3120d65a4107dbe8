"""Loads modules of the framework's packages, and of its bundled plugins and libraries, in few steps.

``exec`` imports some 250 of them before its first request. For each, Python's own finder and loader take many steps, written in
Python: 6 % of the time until then. As in Python, a compiled file is used if it has the time and the size of its source. In
unusual cases, Python's own loader does the work.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from importlib._bootstrap_external import MAGIC_NUMBER  # importlib.util, which has it too, takes longer to import
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

__all__ = ["find_own_modules"]

_OURS = ("codex_framework.", "codex_client_", "codex_plugin_", "codex_lib_")
_HEAD = 16
"""Bytes before the code in a compiled file: magic number, flags, time and size of the source, as PEP 552 describes."""


def find_own_modules() -> None:
    """Install the finder for later imports. It has no effect if compiled files have other names or folders."""
    tag = sys.implementation.cache_tag
    if tag is None or sys.flags.optimize or sys.pycache_prefix is not None or os.sep != "/":
        return
    try:
        place = sys.meta_path.index(PathFinder)  # others, such as those of coverage tools, are asked before
    except ValueError:
        return
    sys.meta_path.insert(place, _OwnModules(f".{tag}.pyc"))


class _OwnModules:
    """The finder, for ``sys.meta_path``.

    Args:
        suffix: The text after the module's name in the name of its compiled file.
    """

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the place of a module inside one of these packages, if its compiled file can be used."""
        if path is None or len(path) != 1 or target is not None or not name.startswith(_OURS):
            return None
        folder, tail = path[0], name.rpartition(".")[2]
        # Python looks for the package first. No package of ours has a module of the same name beside it.
        return self._spec(name, folder, tail) or self._spec(name, f"{folder}/{tail}", "__init__")

    def _spec(self, name: str, folder: str, stem: str) -> ModuleSpec | None:
        file, compiled = f"{folder}/{stem}.py", f"{folder}/__pycache__/{stem}{self._suffix}"
        code = _code_of(file, compiled)
        if code is None:
            return None
        spec = ModuleSpec(name, _Loader(name, file, code), origin=file, is_package=stem == "__init__")
        spec.cached, spec.has_location = compiled, True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder)
        return spec


class _Loader(SourceFileLoader):
    """Loads a module whose compiled file has been read. Reloading the module checks the source again."""

    def __init__(self, name: str, file: str, code: CodeType) -> None:
        super().__init__(name, file)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code."""
        code, self._code = self._code, None
        return code or super().get_code(fullname)


def _code_of(file: str, compiled: str) -> CodeType | None:
    """Return the code of a module if its compiled file belongs to its source."""
    try:
        source = os.stat(file)  # noqa: PTH116  # a Path takes longer to make than this takes
        with open(compiled, "rb", buffering=0) as opened:  # noqa: PTH123
            data = opened.read()
    except OSError:
        return None
    expected = MAGIC_NUMBER + b"\0\0\0\0" + _word(int(source.st_mtime)) + _word(source.st_size)
    if data[:_HEAD] != expected:
        return None
    try:
        code = marshal.loads(memoryview(data)[_HEAD:])  # noqa: S302  # as Python does with the same file
    except (EOFError, ValueError, TypeError):
        return None
    return code if isinstance(code, CodeType) and code.co_filename == file else None


def _word(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "little")
