"""Stores tokens in a file that Codex reads and writes too, or in the keyring of the system."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.os_errors import os_error_text
from codex_framework.toolkit.regular_files import open_regular
from codex_lib_model_client.keyrings import Keyring, delete_entries, installed_keyring, store_entry
from codex_plugin_mcp.oauth.credentials import StoredTokens, store_key
from codex_plugin_mcp.oauth.errors import LoginFailed

__all__ = ["StoreMode", "TokenStore", "store_mode"]

StoreMode = Literal["auto", "file", "keyring"]

_FILE = ".credentials.json"
_LOCKS, _FILE_LOCK = "mcp-oauth-locks", "file-store.lock"
_SERVICE = "Codex MCP Credentials"
_OWN = "codex_framework"
"""The key of what Codex's format has no place for. Codex ignores it, and drops it when it writes an entry."""

_LOCK_S = 60.0
_LOCK_PAUSE_S = 0.05
_MAX_BYTES = 8 * 1024 * 1024


def store_mode(config: Mapping[str, Any]) -> StoreMode:
    """Return the setting ``mcp_oauth_credentials_store``."""
    mode = config.get("mcp_oauth_credentials_store")
    return cast("StoreMode", mode) if mode in ("auto", "file", "keyring") else "auto"


class TokenStore:
    """The tokens of all servers.

    Args:
        codex_home: The folder of the file.
        mode: ``file``: the file. ``keyring``: the system's keyring. ``auto``: the keyring if the package ``keyring`` is
            installed and has a backend, else the file.
        keyring: The keyring to use. By default, the package ``keyring``, if it is installed.
    """

    def __init__(self, codex_home: Path, mode: StoreMode = "auto", *, keyring: Keyring | None = None) -> None:
        self._home = codex_home
        self._mode = mode
        self._given = keyring

    @property
    def path(self) -> Path:
        """The file."""
        return self._home / _FILE

    def load(self, server_name: str, url: str) -> StoredTokens | None:
        """Return the tokens of a server, or None.

        Raises:
            LoginFailed: The file or the keyring cannot be read.
        """
        keyring = self._keyring()
        if keyring is not None:
            with self._keyring_errors():
                name = store_key(server_name, url)
                text = keyring.get_password(_SERVICE, name)
                if text is None and (self._home / _LOCKS / _FILE_LOCK).exists():
                    with self._file_lock(shared=True):  # a process that replaces the entry deletes it first
                        text = keyring.get_password(_SERVICE, name)
                if text is not None:
                    return _from_keyring(text, server_name, url)
        return None if self._mode == "keyring" else self._load_from_file(server_name, url)

    def save(self, tokens: StoredTokens) -> None:
        """Store the tokens of a server in place of the ones before.

        Raises:
            LoginFailed: They cannot be stored.
        """
        keyring = self._keyring()
        if keyring is not None:
            name, stored = store_key(tokens.server_name, tokens.url), False
            with self._keyring_errors():
                with self._file_lock():
                    store_entry(keyring, _SERVICE, name, json.dumps(_keyring_entry(tokens)))
                self._drop_from_file(tokens.server_name, tokens.url)
                stored = True
            if stored:
                return
            with contextlib.suppress(Exception):  # an entry that is left would be older, and used before the file
                delete_entries(keyring, _SERVICE, name)
        with self._file_lock():
            entries = self._entries()
            entries = {
                key: entry for key, entry in entries.items() if not _is_of(entry, tokens.server_name, tokens.url)
            }
            self._write({**entries, store_key(tokens.server_name, tokens.url): _file_entry(tokens)})

    def delete(self, server_name: str, url: str) -> bool:
        """Delete the tokens of a server everywhere. Returns whether there were any.

        Raises:
            LoginFailed: They cannot be deleted.
        """
        found = False
        keyring = self._keyring()
        if keyring is not None:
            with self._keyring_errors():
                found = delete_entries(keyring, _SERVICE, store_key(server_name, url))
        return self._drop_from_file(server_name, url) or found

    @contextlib.asynccontextmanager
    async def lock(self, server_name: str, url: str) -> AsyncIterator[None]:
        """Lock the tokens of a server for changing them. Codex uses the same lock. Waits up to a minute.

        Raises:
            LoginFailed: Another process does not release it.
        """
        name = hashlib.sha256(store_key(server_name, url).encode()).hexdigest()
        descriptor = self._open_lock(f"{name}.lock")
        try:
            deadline = time.monotonic() + _LOCK_S
            while not self._try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise LoginFailed(f"another process has been changing the login of {server_name} for a minute")
                await asyncio.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(descriptor)

    # The keyring

    def _keyring(self) -> Keyring | None:
        if self._mode == "file":
            return None
        keyring = self._given or installed_keyring()
        if keyring is None and self._mode == "keyring":
            raise LoginFailed(
                "the keyring of the system cannot be used",
                hint='Install the package `keyring` with a backend, or set mcp_oauth_credentials_store = "file".',
            )
        return keyring

    @contextlib.contextmanager
    def _keyring_errors(self) -> Iterator[None]:
        """Turn errors of a keyring into ours, or ignore them if there is the file."""
        try:
            yield
        except LoginFailed:
            raise
        except Exception as error:  # a backend may raise anything
            if self._mode == "keyring":
                raise LoginFailed(
                    f"the keyring of the system failed ({type(error).__name__})",
                    hint='Unlock it, or set mcp_oauth_credentials_store = "file".',
                ) from error

    # The file

    def _load_from_file(self, server_name: str, url: str) -> StoredTokens | None:
        if not self.path.exists():
            return None
        with self._file_lock(shared=True):
            for entry in self._entries().values():
                if _is_of(entry, server_name, url):
                    return _from_file(entry, server_name, url)
        return None

    def _drop_from_file(self, server_name: str, url: str) -> bool:
        if not self.path.exists():
            return False
        with self._file_lock():
            entries = self._entries()
            kept = {key: entry for key, entry in entries.items() if not _is_of(entry, server_name, url)}
            if len(kept) == len(entries):
                return False
            self._write(kept)
        return True

    def _entries(self) -> dict[str, Any]:
        """Return the entries of the file. An invalid file is an error, so that no tokens are overwritten."""
        try:
            with open(self.path, "rb", opener=open_regular) as file:
                raw = file.read(_MAX_BYTES + 1)
            entries = json.loads(raw) if len(raw) <= _MAX_BYTES else None
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise LoginFailed(f"{self.path} cannot be read: {os_error_text(error)}") from error
        except (ValueError, RecursionError):
            entries = None
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise LoginFailed(
                f"{self.path} does not contain logins as Codex writes them",
                hint="Move the file away and log in again.",
            )
        return entries

    def _write(self, entries: Mapping[str, Any]) -> None:
        try:
            if not entries:
                self.path.unlink(missing_ok=True)
                return
            _replace(self.path, json.dumps(entries).encode())
        except OSError as error:
            raise LoginFailed(f"{self.path} cannot be written: {os_error_text(error)}") from error

    @contextlib.contextmanager
    def _file_lock(self, *, shared: bool = False) -> Iterator[None]:
        descriptor = self._open_lock(_FILE_LOCK)
        try:
            deadline = time.monotonic() + _LOCK_S
            while not self._try_lock(descriptor, shared=shared):
                if time.monotonic() > deadline:
                    raise LoginFailed(f"another process has been changing {self.path} for a minute")
                time.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(descriptor)

    def _try_lock(self, descriptor: int, *, shared: bool = False) -> bool:
        try:
            return try_lock(descriptor, shared=shared)
        except OSError as error:
            raise LoginFailed(f"{self._home / _LOCKS} cannot be locked: {os_error_text(error)}") from error

    def _open_lock(self, name: str) -> int:
        folder = self._home / _LOCKS
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise LoginFailed(f"{folder / name} cannot be opened: {os_error_text(error)}") from error


def _replace(path: Path, data: bytes) -> None:
    """Write a file beside ``path`` that only the user may read, and rename it over ``path``.

    The toolkit's function does not write this file, because no tool may, and a login may be refreshed within a tool's call.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # the descriptor is open already
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_of(entry: Mapping[str, Any], server_name: str, url: str) -> bool:
    """Whether an entry of the file belongs to a server. Entries of remote executors are not ours."""
    names = entry.get("server_name"), entry.get("server_url")
    return names == (server_name, url) and not entry.get("executor_owned")


def _file_entry(tokens: StoredTokens) -> dict[str, Any]:
    return {
        "server_name": tokens.server_name,
        "server_url": tokens.url,
        **({"issuer": tokens.issuer} if tokens.issuer else {}),
        "client_id": tokens.client_id,
        "access_token": tokens.access_token,
        "expires_at": tokens.expires_at,
        "refresh_token": tokens.refresh_token,
        "scopes": list(tokens.scopes),
        _OWN: tokens.own,
    }


def _keyring_entry(tokens: StoredTokens) -> dict[str, Any]:
    response: dict[str, Any] = {"access_token": tokens.access_token, "token_type": "bearer"}
    if tokens.refresh_token:
        response["refresh_token"] = tokens.refresh_token
    if tokens.scopes:
        response["scope"] = " ".join(tokens.scopes)
    return {
        "server_name": tokens.server_name,
        "url": tokens.url,
        **({"issuer": tokens.issuer} if tokens.issuer else {}),
        "client_id": tokens.client_id,
        "token_response": response,
        "expires_at": tokens.expires_at,
        _OWN: tokens.own,
    }


def _from_file(entry: Mapping[str, Any], server_name: str, url: str) -> StoredTokens:
    scopes = entry.get("scopes")
    given = [scope for scope in scopes if isinstance(scope, str)] if isinstance(scopes, list) else []
    return _tokens(entry, entry, given, server_name, url)


def _from_keyring(text: str, server_name: str, url: str) -> StoredTokens | None:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    response = entry.get("token_response") if isinstance(entry, dict) else None
    if not isinstance(response, dict):
        return None
    return _tokens(entry, response, (_text(response.get("scope")) or "").split(), server_name, url)


def _tokens(
    entry: Mapping[str, Any], response: Mapping[str, Any], scopes: list[str], server_name: str, url: str
) -> StoredTokens:
    own = entry.get(_OWN)
    own = own if isinstance(own, dict) else {}
    expires_at, wanted = entry.get("expires_at"), own.get("wanted_scopes")
    secret = _text(own.get("client_secret"))
    return StoredTokens(
        server_name=server_name,
        url=url,
        client_id=_text(entry.get("client_id")) or "",
        access_token=_text(response.get("access_token")) or "",
        expires_at=expires_at if type(expires_at) is int else None,
        refresh_token=_text(response.get("refresh_token")),
        scopes=tuple(scopes),
        issuer=_text(entry.get("issuer")),
        client_secret=secret,
        auth_method=_text(own.get("auth_method")) or ("client_secret_basic" if secret else "none"),
        token_endpoint=_text(own.get("token_endpoint")),
        resource=_text(own.get("resource")),
        wanted_scopes=tuple(each for each in wanted if isinstance(each, str)) if isinstance(wanted, list) else (),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
