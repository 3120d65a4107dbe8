"""Finds the modules of the framework, of its bundled plugins and of the standard library without searching for them.

A command imports some 430 of them before its first request. Python's own finder looks at every folder on the path, and at the source
and the compiled file of each module in several steps written in Python, which is a tenth of the whole start. The place of these
modules is known, so that one look at the source and one at the compiled file are enough. Where anything is unusual, Python's own
finder does the work.
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

_OURS = ("codex_framework.", "codex_plugin_", "codex_lib_", "codex_client_")
_HEAD = 16
"""Bytes before the code in a compiled file: magic number, flags, time and size of the source, as PEP 552 describes."""

_PIECE = 65_536
"""Bytes that are read at once. Most compiled files are shorter, so that one call reads them."""


class _CompiledLoader(SourceFileLoader):
    """Loads a module whose compiled file has been read already."""

    def __init__(self, name: str, file: str, code: CodeType) -> None:
        super().__init__(name, file)
        self._code: CodeType | None = code

    def exec_module(self, module: ModuleType) -> None:
        """Run the module. Reloading it looks at the source again."""
        code, self._code = self._code, None
        if code is None:
            super().exec_module(module)
        else:
            exec(code, module.__dict__)  # noqa: S102  # what every loader does


class _OwnModules:
    """The finder, for ``sys.meta_path``.

    Args:
        suffix: What follows the name of a module in the name of its compiled file.
        root: The folder in which plugins are looked for first. None means that Python looks for them.
        library: The folder of the standard library. None means that Python looks for its modules.
    """

    def __init__(self, suffix: str, root: str | None, library: str | None) -> None:
        self._suffix = suffix
        self._root = root
        self._library = library

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the place and the code of a module in one of these packages. None means that somebody else must look for it."""
        if target is not None:
            return None
        if not name.startswith(_OURS):
            return self._of_library(name, path)
        if path is None:
            return None if self._root is None else self._spec(name, f"{self._root}/{name}/", "__init__")
        if len(path) != 1:
            return None
        folder, tail = path[0], name.rpartition(".")[2]
        # Python looks for the package first. No package of ours has a module of the same name beside it.
        return self._spec(name, f"{folder}/", tail) or self._spec(name, f"{folder}/{tail}/", "__init__")

    def _of_library(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return the place and the code of a module of the standard library. Most whose name begins with ``_`` are not in Python."""
        library = self._library
        top, _, rest = name.partition(".")
        if library is None or top[0] == "_" or top not in sys.stdlib_module_names:
            return None
        if rest and (path is None or len(path) != 1 or not path[0].startswith(f"{library}/{top}")):
            return None
        tail = name.rpartition(".")[2]
        folder = library if path is None else path[0]
        spec = self._spec(name, f"{folder}/", tail) or self._spec(name, f"{folder}/{tail}/", "__init__")
        if spec is None and os.path.isfile(f"{folder}/{tail}.py"):  # noqa: PTH113
            self._library = None  # it is not compiled, or was compiled elsewhere, and so are the others
        return spec

    def _spec(self, name: str, folder: str, stem: str) -> ModuleSpec | None:
        file, compiled = f"{folder}{stem}.py", f"{folder}__pycache__/{stem}{self._suffix}"
        code = _code_of(file, compiled)
        if code is None:
            return None
        package = stem == "__init__"
        spec = ModuleSpec(name, _CompiledLoader(name, file, code), origin=file, is_package=package)
        spec.cached, spec.has_location = compiled, True
        if package and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder.removesuffix("/"))
        return spec


def find_own_modules() -> None:
    """Let the finder find what is imported from now on. It has no effect where compiled files have other names or places."""
    tag = sys.implementation.cache_tag
    if tag is None or sys.flags.optimize or sys.pycache_prefix is not None or os.sep != "/":
        return
    try:
        place = sys.meta_path.index(PathFinder)  # others, such as those of coverage tools, are asked before
    except ValueError:
        return
    sys.meta_path.insert(place, _OwnModules(f".{tag}.pyc", _root(), _library()))


def _root() -> str | None:
    """Return the folder that contains this package, if Python would find plugins there before anywhere else."""
    root = __file__.rpartition("/codex_framework/")[0]
    return root if _is_first(root) else None


def _library() -> str | None:
    """Return the folder of the standard library, if Python would find its modules there before anywhere else."""
    library = os.__file__.rpartition("/")[0] if hasattr(os, "__file__") else ""
    return library if library and _is_first(library) else None


def _is_first(folder: str) -> bool:
    """Return whether only the library of Python and the folder of the program come before a folder on the path."""
    if folder not in sys.path:
        return False
    before = sys.path[: sys.path.index(folder)]
    program = os.path.dirname(os.path.abspath(sys.argv[0]))  # noqa: PTH100, PTH120
    usual = (f"{sys.base_prefix}/lib", program)
    return all(entry.startswith(usual) for entry in before)


def _code_of(file: str, compiled: str) -> CodeType | None:
    """Return the code of a module if its compiled file belongs to its source."""
    try:
        source = os.stat(file)  # noqa: PTH116  # a Path takes longer to make than this takes
        data = _content(compiled)
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


def _content(file: str) -> bytes:
    """Return the content of a file. ``open`` asks the system for more about it than is needed."""
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = piece = os.read(opened, _PIECE)
        while len(piece) == _PIECE:
            piece = os.read(opened, _PIECE)
            content += piece
    finally:
        os.close(opened)
    return content


def _word(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "little")
