"""Edits of a ``config.toml`` that preserve its comments, order and spacing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.config.keys import dotted
from codex_framework.config.toml_file import read_toml
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.replacement import replace_file

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

__all__ = ["clear_path", "set_path"]


def set_path(file: Path, key: Sequence[str], value: Any) -> None:
    """Set one key. The file, its folder and the tables around the key are created if they are missing.

    Args:
        file: A ``config.toml``. A symlink is followed.
        key: The key's segments.
        value: Any value that TOML supports.

    Raises:
        ConfigError: The file is invalid or cannot be written, or a parent of the key is not a table.
    """
    import tomlkit
    from tomlkit.items import InlineTable, Table

    with _opened(file) as document:
        table: Any = document
        for index, segment in enumerate(key[:-1]):
            if segment not in table:
                is_last = index == len(key) - 2
                table[segment] = (
                    tomlkit.inline_table()
                    if isinstance(table, InlineTable)
                    else tomlkit.table(is_super_table=not is_last)
                )
            table = table[segment]
            if not isinstance(table, (Table, InlineTable)) and not hasattr(table, "items"):
                raise ConfigError(
                    f"{file}: `{dotted(key[: index + 1])}` is not a table, so `{dotted(key)}` cannot be set",
                    path=str(file),
                    key=dotted(key),
                    hint="Fix the file by hand.",
                )
        table[key[-1]] = value


def clear_path(file: Path, key: Sequence[str]) -> bool:
    """Remove one key, or a table with all its entries.

    Returns:
        Whether the key existed. If not, the file is left unchanged.

    Raises:
        ConfigError: As for :func:`set_path`.
    """
    current = read_toml(file)
    table: Any = current[0] if current else {}
    for segment in key:
        if not isinstance(table, dict) or segment not in table:
            return False
        table = table[segment]
    with _opened(file) as document:
        parent: Any = document
        for segment in key[:-1]:
            parent = parent[segment]
        del parent[key[-1]]
    return True


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[TOMLDocument]:
    """Yield the file's document. At the end its new text replaces the file in one step, under a lock against other writers."""
    import tomlkit

    target = Path(os.path.realpath(file))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f".{target.name}.lock")):
            current = read_toml(target)  # raises errors with line and column
            # Read the file again unchanged, because the text in `current` has normalised line ends.
            document = tomlkit.parse(target.read_bytes().decode("utf-8-sig") if current else "")
            yield document
            mode = None if target.exists() else 0o600  # it may hold tokens
            replace_file(target, tomlkit.dumps(document).encode(), mode=mode)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror or error}",
            path=str(file),
            slug="config-unwritable",
            hint="Check the permissions of the file and its folder, and the free disk space.",
        ) from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock. The end of the process releases it too."""
    import fcntl

    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
