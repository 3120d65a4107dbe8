"""Edits of a ``config.toml`` that preserve its comments, order and spacing: under a lock, checked, and in one step."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from codex_framework.config.keys import format_key
from codex_framework.config.toml_file import content_of, parse_toml, read_toml
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.replacement import replace_file

__all__ = ["Check", "change_file", "clear_path", "replace_content", "set_path"]

_BOM = b"\xef\xbb\xbf"
_LOCK_WAIT_S = 10.0

Check = Callable[[bytes], object]
"""A function that gets the whole new content of the file and raises :class:`ConfigError` if it must not be written."""


def set_path(file: Path, key: Sequence[str], value: Any, check: Check | None = None) -> bool:
    """Set one key. The file, its folder and the tables around the key are created if they are missing.

    Args:
        file: A ``config.toml``. A symlink is followed.
        key: The key's segments.
        value: Any value that TOML supports.
        check: The check of the new content. It runs before anything is written.

    Returns:
        Whether the file has changed.

    Raises:
        ConfigError: The file is invalid or cannot be written, or a parent of the key is not a table.
    """
    from codex_framework.config.editing.text import NotATableError, with_value

    def set_value(text: str) -> str:
        try:
            return with_value(text, key, value)
        except NotATableError as error:
            raise ConfigError(
                f"{file}: `{format_key(error.path)}` is not a table, so `{format_key(key)}` cannot be set",
                path=str(file),
                key=format_key(key),
                hint=f"Remove `{format_key(error.path)}` first, or set it as a whole.",
            ) from None

    return change_file(file, set_value, check)


def clear_path(file: Path, key: Sequence[str], check: Check | None = None) -> bool:
    """Remove one key, or a table with all its entries. Comments and blank lines stay.

    Returns:
        Whether the key existed. If not, the file is left unchanged.

    Raises:
        ConfigError: As for :func:`set_path`.
    """
    from codex_framework.config.editing.text import without_key

    return change_file(file, lambda text: without_key(text, key), check)


def change_file(file: Path, change: Callable[[str], str], check: Check | None = None) -> bool:
    """Change the text of a file.

    Args:
        file: A ``config.toml``. A symlink is followed. A missing file counts as empty.
        change: A function from the old text to the new one. It is called again if another program writes in between.
        check: The check of the new content. It runs before anything is written.

    Returns:
        Whether the file has changed.

    Raises:
        ConfigError: The file is invalid or cannot be written, or as ``change`` and ``check`` raise.
    """
    prepared = _prepare_change(file, change, check)
    with _writable(file) as target:
        while True:
            raw = content_of(file)
            if prepared is None or prepared[0] != raw:
                prepared = raw, _change_content(file, raw, change, check)
            content = prepared[1]
            if isinstance(content, ConfigError):
                raise content
            if content is None:
                return False
            if _replace(target, content, unless_changed_from=raw):
                return True


def _prepare_change(
    file: Path, change: Callable[[str], str], check: Check | None
) -> tuple[bytes | None, bytes | ConfigError | None] | None:
    """Return the content of a file and the changed one, which takes time, for which other writers need not wait.

    An error is returned in place of the changed content, because one about writing the file comes first. None if the file
    cannot be read.
    """
    try:
        raw = content_of(file)
    except ConfigError:
        return None
    try:
        return raw, _change_content(file, raw, change, check)
    except ConfigError as error:
        return raw, error


def _change_content(file: Path, raw: bytes | None, change: Callable[[str], str], check: Check | None) -> bytes | None:
    """Return the changed content of a file, which is checked, or None if nothing changes."""
    if raw is not None:
        parse_toml(file, raw)
    mark, body = (_BOM, raw[len(_BOM) :]) if raw and raw.startswith(_BOM) else (b"", raw or b"")
    text = body.decode()
    new = change(text)
    if new == text:
        return None
    content = mark + _encode(file, new)
    if check is not None:
        check(content)
    return content


def replace_content(file: Path, before: bytes | None, content: bytes, check: Check) -> None:
    """Replace the whole content of a file.

    Args:
        file: A ``config.toml``. A symlink is followed.
        before: The content that the new one was made from. None if there was no file.
        content: The new content.
        check: The check of the new content. It runs before anything is written.

    Raises:
        ConfigError: The file cannot be written or has changed since ``before``, or as ``check`` raises.
    """
    with _writable(file) as target:
        check(content)
        if not _replace(target, content, unless_changed_from=before):
            raise ConfigError(
                f"{file} has been changed by another program in the meantime",
                path=str(file),
                slug="config-changed",
                hint="Compare both versions, and make your change again.",
            )


@contextlib.contextmanager
def _writable(file: Path) -> Iterator[Path]:
    """Resolve a path and yield its file, under a lock against other writers. Folders are created.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        if not file.is_symlink():
            file.parent.mkdir(parents=True, exist_ok=True)
        target = Path(os.path.realpath(file))
        with _hold_lock(target.with_name(f".{target.name}.lock"), file):
            _check_target(file, target)
            yield target
    except OSError as error:
        raise _unwritable(file, error.strerror or str(error)) from error


def _check_target(file: Path, target: Path) -> None:
    """Check that a file may be replaced. Renaming would replace a read-only file or a device as well."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        read_toml(file)
    if not stat.S_ISREG(mode):
        raise _unwritable(file, "it is not a regular file")
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise _unwritable(file, "it is read-only")


def _unwritable(file: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"{file} cannot be written: {reason}",
        path=str(file),
        slug="config-unwritable",
        hint="Check the permissions of the file and its folder, and the free disk space.",
    )


def _encode(file: Path, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the new text of {file} would not be UTF-8: it contains {error.object[error.start : error.end]!r}",
            path=str(file),
            slug="config-syntax",
            hint="Use only names and values that are UTF-8.",
        ) from None


class _ChangedError(Exception):
    """Another program has written the file."""


def _replace(target: Path, content: bytes, *, unless_changed_from: bytes | None) -> bool:
    """Write the new content in one step.

    Returns:
        False, and does nothing, if the file no longer has the content that the new one was made from.
    """

    def confirm() -> None:
        if content_of(target) != unless_changed_from:
            raise _ChangedError

    try:
        mode = None if target.exists() else 0o600  # it may hold tokens
        replace_file(target, content, mode=mode, ready=confirm)
    except _ChangedError:
        return False
    return True


@contextlib.contextmanager
def _hold_lock(path: Path, file: Path) -> Iterator[None]:
    """Hold a lock file. It is removed at the end; if the process is killed, the lock is released and the next writer takes it.

    Nothing is written to it, and a symlink in its place is not followed: the folder of a project is not the user's own.
    """
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            if try_lock(descriptor) and _is_same(path, descriptor):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise ConfigError(
                f"{file} is being changed by another process, which has locked it for {_LOCK_WAIT_S:.0f} seconds",
                path=str(file),
                slug="config-locked",
                hint="Wait for that process, or end it.",
            )
        time.sleep(0.01)


def _is_same(path: Path, descriptor: int) -> bool:
    """Return whether the locked file still has its name. Its last owner may have removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
