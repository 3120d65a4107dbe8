"""Changes to a ``config.toml`` that leave its comments, order and spacing alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.config.keys import dotted
from codex_framework.config.toml_file import read_toml
from codex_framework.errors import ConfigError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

__all__ = ["clear_path", "set_path"]


def set_path(file: Path, key: Sequence[str], value: Any) -> None:
    """Set one key. The file, its folder and the tables around the key are made where they are missing.

    Args:
        file: A ``config.toml``; a link is followed.
        key: The key's segments.
        value: Anything TOML can hold.

    Raises:
        ConfigError: The file is not valid or cannot be written, or the key runs through something that is not a table.
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
                    hint="Correct the file by hand.",
                )
        table[key[-1]] = value


def clear_path(file: Path, key: Sequence[str]) -> bool:
    """Remove one key, or a table with all that is in it.

    Returns:
        Whether it was there. If not, the file is left untouched.

    Raises:
        ConfigError: As for :func:`set_path`.
    """
    found = read_toml(file)
    table: Any = found[0] if found else {}
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
    """The file's document; what has become of it at the end is written in one step, while no one else may write."""
    import tomlkit

    target = Path(os.path.realpath(file))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f".{target.name}.lock")):
            found = read_toml(target)  # for its errors, which name line and column
            # Read again as it is: the text in `found` has other line ends.
            document = tomlkit.parse(target.read_bytes().decode("utf-8-sig") if found else "")
            yield document
            _replace(target, tomlkit.dumps(document))
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror or error}",
            path=str(file),
            slug="config-unwritable",
            hint="Check the permissions of the file and its folder, and the space on the disk.",
        ) from error


def _replace(target: Path, text: str) -> None:
    """Write beside the file, then put it in its place, so that nobody ever sees half of it."""
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process at the latest."""
    import fcntl

    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
