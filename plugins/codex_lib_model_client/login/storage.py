"""Stores the login in ``auth.json``, which Codex reads and writes too, in the system's keyring, or only in this process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.installing import install_command
from codex_framework.toolkit.os_errors import os_error_text
from codex_framework.toolkit.regular_files import open_regular
from codex_lib_model_client.keyrings import Keyring, delete_entries, installed_keyring, store_entry
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["LoginStorage", "StoreMode", "store_mode"]

T = TypeVar("T")

StoreMode = Literal["file", "keyring", "auto", "ephemeral"]

_SERVICE = "Codex Auth"
"""The name of the keyring entry's service (Codex's)."""
_LOCKS = ("auth.lock", "auth.json.lock")
"""The locks that Codex holds while it replaces the file, in its order."""
_REFRESH_LOCK = "auth.refresh.lock"
_LOCK_S = 60.0
_LOCK_PAUSE_S = 0.02
_MAX_BYTES = 1024 * 1024

_ephemeral: dict[str, StoredLogin] = {}


def store_mode(config: Mapping[str, Any]) -> StoreMode:
    """Return the setting ``cli_auth_credentials_store``. The default is ``file``, as in Codex."""
    mode = config.get("cli_auth_credentials_store")
    return cast("StoreMode", mode) if mode in ("file", "keyring", "auto", "ephemeral") else "file"


class LoginStorage:
    """The stored login.

    Args:
        codex_home: The folder of the file.
        mode: ``file``: the file. ``keyring``: the system's keyring. ``auto``: the keyring if the package ``keyring`` is
            installed and works, else the file. ``ephemeral``: the memory of this process.

    Storing a login in the keyring deletes the file. So if both exist, the file is newer: it was written in the mode ``file``,
    or while the keyring could not be used. With ``auto``, the file is then used. Codex uses the keyring.
    """

    def __init__(self, codex_home: Path, mode: StoreMode = "file") -> None:
        self._home = codex_home
        self._mode = mode

    @property
    def path(self) -> Path:
        """The file."""
        return self._home / "auth.json"

    def load(self) -> StoredLogin | None:
        """Return the login, or None without a login.

        Raises:
            LoginError: The file or the keyring cannot be read.
        """
        if self._mode == "ephemeral":
            return _ephemeral.get(self._key())
        if self._mode == "file":
            return self._read()
        text = self._in_keyring(self._entry)
        if self._mode == "auto" and (text is None or self.path.exists()):
            return self._newer(text)
        return _of_keyring(text)

    def save(self, login: StoredLogin) -> None:
        """Store a login in place of the one before. The file is replaced in one step, and only its owner can read it.

        Raises:
            LoginError: The login cannot be stored.
        """
        if self._mode == "ephemeral":
            _ephemeral[self._key()] = login
            return
        if self._mode != "file":
            text = json.dumps(login.content, ensure_ascii=False)

            def store(keyring: Keyring) -> bool:
                store_entry(keyring, _SERVICE, self._key(), text)
                return True

            with self._lock_files(_LOCKS):  # this makes the folder, on which the name of the entry depends
                stored = self._in_keyring(store)
                if not stored:
                    self._in_keyring(self._drop_entry)  # it would be older, and Codex would use it
            if stored:
                self._drop_older_file()
                return
        data = json.dumps(login.content, indent=2, ensure_ascii=False).encode("utf-8", "replace")
        with self._lock_files(_LOCKS):
            self._replace(data)

    def delete(self) -> bool:
        """Delete the login from all places, and return whether one existed.

        If the keyring fails, the file is deleted nevertheless.

        Raises:
            LoginError: A login may be left; the error names the place.
        """
        found = _ephemeral.pop(self._key(), None) is not None
        found = self._drop_file() or found
        if self._mode in ("keyring", "auto"):
            found = bool(self._in_keyring(self._drop_entry, left=True)) or found
        return found

    @contextlib.contextmanager
    def refreshing(self) -> Iterator[None]:
        """Hold the lock for refreshing tokens, so that only one process at a time asks the issuer. Waits up to a minute.

        Raises:
            LoginError: Another process does not release it.
        """
        with self._lock_files((_REFRESH_LOCK,)):
            yield

    # The file

    def _newer(self, text: str | None) -> StoredLogin | None:
        """Return the login of the file, or the keyring's login if it was refreshed later or the file cannot be read."""
        try:
            stored = self._read()
        except LoginError:
            if not text:
                raise
            stored = None
        try:
            kept = _of_keyring(text)
        except LoginError:
            if stored is None:
                raise
            return stored
        if kept is None or stored is None:
            return stored or kept
        return kept if kept.refreshed_at > stored.refreshed_at > 0 else stored

    def _read(self) -> StoredLogin | None:
        try:
            with open(self.path, "rb", opener=open_regular) as file:
                raw = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(f"{self.path} cannot be read: {os_error_text(error)}") from error
        return _parse(raw, str(self.path))

    def _replace(self, data: bytes) -> None:
        """Write a new file that only the user may read, and rename it over the old one.

        The toolkit's function refuses to write this file, because tools must not. Tokens may be refreshed within a tool's call.
        """
        target = Path(os.path.realpath(self.path))
        temporary = target.with_name(f".auth-{os.urandom(6).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o600)
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123  # the descriptor is open already
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise self._unwritable(error) from error

    def _drop_older_file(self) -> None:
        try:
            self._drop_file()
        except LoginError as error:
            raise LoginError(
                f"the login is in the system's keyring, but an older one is left: {error.fact}",
                reason="unwritable",
                hint=f"Delete {self.path}.",
            ) from error

    def _drop_file(self) -> bool:
        if not self.path.exists() and not self.path.is_symlink():
            return False
        with self._lock_files(_LOCKS):
            try:
                target = Path(os.path.realpath(self.path))  # a symlink alone would leave the secret
                target.unlink(missing_ok=True)
                self.path.unlink(missing_ok=True)
            except OSError as error:
                raise self._unwritable(error) from error
        return True

    def _unwritable(self, error: OSError) -> LoginError:
        fact = f"{self.path} cannot be written: {os_error_text(error)}"
        hint = f"Make {self._home} writable, with free space."
        return LoginError(fact, reason="unwritable", hint=_folder_hint(self.path, error) or hint)

    @contextlib.contextmanager
    def _lock_files(self, names: tuple[str, ...]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.callback(os.close, self._lock(self._home / name))
            yield

    def _lock(self, path: Path) -> int:
        self._make_home()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._open_error(path, error) from error
        deadline = time.monotonic() + _LOCK_S
        try:
            while not try_lock(descriptor):
                if time.monotonic() > deadline:
                    fact = f"another process has been changing the login in {self._home} for a minute"
                    raise LoginError(fact, reason="timeout", hint="End that process, then try again.")
                time.sleep(_LOCK_PAUSE_S)
        except OSError as error:
            os.close(descriptor)
            raise self._open_error(path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _make_home(self) -> None:
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._open_error(self._home, error) from error

    def _open_error(self, path: Path, error: OSError) -> LoginError:
        fact = f"{path} cannot be opened: {os_error_text(error)}"
        return LoginError(fact, reason="unwritable", hint=_folder_hint(path, error) or f"Make {self._home} writable.")

    # The keyring

    def _key(self) -> str:
        """Return the name of the keyring entry for this folder, which is Codex's: ``cli|`` and 16 hexadecimal digits.

        They are the first of the SHA-256 of the folder's path with all symlinks resolved, or as it was given if the folder does
        not exist. Bytes that are not UTF-8 count as U+FFFD (``compute_store_key`` in ``codex-rs/login/src/auth/storage.rs`` of
        openai/codex). The service is ``Codex Auth``.
        """
        try:
            path = os.path.realpath(self._home, strict=True)
        except OSError:
            path = os.fspath(self._home)
        name = os.fsencode(path).decode("utf-8", "replace")
        return f"cli|{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def _entry(self, keyring: Keyring) -> str | None:
        """Return the text of the entry. If it is missing, look again when no process is replacing it."""
        text = keyring.get_password(_SERVICE, self._key())
        if text is None and (self._home / _LOCKS[0]).exists():
            with contextlib.suppress(LoginError), self._lock_files(_LOCKS):
                text = keyring.get_password(_SERVICE, self._key())
        return text

    def _drop_entry(self, keyring: Keyring) -> bool:
        return delete_entries(keyring, _SERVICE, self._key())

    def _in_keyring(self, action: Callable[[Keyring], T], *, left: bool = False) -> T | None:
        """Use the keyring. Return None if the system has no keyring, so that the file is used instead.

        Args:
            left: Whether a login may be left in a keyring that fails, so that this is an error in any mode.

        Raises:
            LoginError: The keyring is missing or fails, and nothing else may be used.
        """
        keyring = installed_keyring()
        if keyring is None:
            if self._mode == "auto":
                return None
            raise LoginError(
                "the keyring of the system cannot be used",
                reason="keyring",
                hint=f"Install it with `{install_command('codex-framework[keyring]')}`,"
                ' or set cli_auth_credentials_store = "file".',
            )
        try:
            return action(keyring)
        except Exception as error:  # a backend may raise anything
            if self._mode == "auto" and not left:
                return None
            fact = f"the keyring of the system failed ({type(error).__name__})"
            hint = 'Unlock it, or set cli_auth_credentials_store = "file".'
            if left:
                fact += f", so a login may be left in it: the entry {self._key()!r} of {_SERVICE!r}"
                hint = "Unlock it and run `codex-framework logout` again, or delete the entry with the keyring's own program."
            raise LoginError(
                fact, reason="keyring", hint=hint
            ) from None  # the backend's own text may quote what it was given


def _of_keyring(text: str | None) -> StoredLogin | None:
    return _parse(text.encode("utf-8", "replace"), "the login in the system's keyring") if text else None


def _parse(raw: bytes, place: str) -> StoredLogin:
    try:
        content = json.loads(raw) if len(raw) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _unreadable(f"{place} cannot be read: it is not a JSON object")
    return StoredLogin(content)


def _unreadable(fact: str) -> LoginError:
    hint = "Repair or delete it, or log in again with `codex-framework login`."
    return LoginError(fact, reason="unreadable", hint=hint)


def _folder_hint(path: Path, error: OSError) -> str:
    """Return what to do about a folder in place of a file, or an empty text for any other error."""
    return f"Move the folder {path} away." if isinstance(error, IsADirectoryError) else ""
