"""One-file plugins: Python files that the user names, loaded without a distribution or an entry point."""

from __future__ import annotations

import io
import os
import re
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.loader.discovery import PluginSource
from codex_framework.loader.report import PluginProblem
from codex_framework.toolkit.regular_files import open_regular

if TYPE_CHECKING:
    from codex_framework.config import Config

__all__ = ["PluginFileError", "file_sources", "import_file"]

_STAMP = "__codex_file__"
"""The attribute of a one-file plugin's module that identifies the state of the file when it was imported."""


class PluginFileError(Exception):
    """A file cannot be read as a plugin."""

    def __init__(self, problem: PluginProblem) -> None:
        super().__init__(problem.fact)
        self.problem = problem


def file_sources(config: Config, files: Iterable[Path]) -> list[PluginSource]:
    """Return the sources of one-file plugins: the paths in ``[framework] plugins.paths``, then ``files``, without duplicates."""
    found: dict[str, PluginSource] = {}
    for source in (*_sources_from_config(config), *(_source(file, passed=True) for file in files)):
        found.setdefault(os.path.realpath(source.file), source)
    return list(found.values())


def _sources_from_config(config: Config) -> Iterator[PluginSource]:
    key = ("framework", "plugins", "paths")
    for index, path in enumerate(config.get("framework.plugins.paths", ())):
        origin = config.error((*key, index), "")
        yield _source(config.cwd / path, named_in=origin.path or "", named_line=origin.line)


def _source(path: Path, *, named_in: str = "", named_line: int | None = None, passed: bool = False) -> PluginSource:
    """Return the source for a file. The plugin's name is the file's name without ``.py``."""
    import hashlib

    absolute = os.path.normpath(Path.cwd() / path)

    digest = hashlib.sha256(absolute.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = path.name.removesuffix(".py")
    return PluginSource(
        name=name,
        target=f"codex_file_{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{digest}",
        file=absolute,
        named_in=named_in,
        named_line=named_line,
        passed=passed,
    )


def import_file(source: PluginSource) -> Any:
    """Return the module of a one-file plugin. A file that has not changed since it was imported is not run again.

    Raises:
        PluginFileError: The file does not exist or cannot be read.
        BaseException: Any exception of its code.
    """
    raw, stamp = _content(source)
    loaded = sys.modules.get(source.target)
    if loaded is not None and vars(loaded).get(_STAMP) == stamp:
        return loaded
    _check_encoding(source, raw)
    code = compile(raw, source.file, "exec", dont_inherit=True)
    module = types.ModuleType(source.target)
    module.__file__ = source.file
    vars(module)[_STAMP] = stamp
    sys.modules[source.target] = module
    try:
        exec(code, vars(module))  # noqa: S102  # the user has named this file to be run
    except BaseException:
        del sys.modules[source.target]
        raise
    return module


def _content(source: PluginSource) -> tuple[bytes, tuple[int, int]]:
    where = source.named_in or "--plugin"
    path = Path(source.file)
    hint = f"Fix the path in {where}." if source.named_in else "Fix the path."
    fact = f"{path} is not a file that ends in .py"
    if path.suffix == ".py":
        try:
            with open(path, "rb", opener=open_regular) as file:
                stat = os.fstat(file.fileno())
                return file.read(), (stat.st_mtime_ns, stat.st_size)
        except (FileNotFoundError, NotADirectoryError):
            fact = f"there is no file {path}"
        except IsADirectoryError:
            fact = f"{path} is a folder, not a file"
        except OSError as error:
            fact = f"{path} cannot be read: {error.strerror or error}"
            hint = "Make the file readable, or remove it from the plugins to load."
    raise PluginFileError(PluginProblem(fact, hint, "plugin-file", source.named_in, source.named_line))


def _check_encoding(source: PluginSource, raw: bytes) -> None:
    """Raise an error with the line of the first byte that cannot be decoded; the compiler's own error has no line."""
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    except SyntaxError as error:
        encoding = "utf-8"
        if "unknown encoding" in str(error):
            fact = f"its file cannot be read: {error.msg}"
            raise PluginFileError(
                PluginProblem(fact, "Save the file as UTF-8.", "plugin-file", source.file, 1)
            ) from None
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        fact = f"its file is not {error.encoding.upper()}: byte 0x{raw[error.start]:02x}"
        problem = PluginProblem(fact, "Save the file as UTF-8.", "plugin-file", source.file, line)
        raise PluginFileError(problem) from None
