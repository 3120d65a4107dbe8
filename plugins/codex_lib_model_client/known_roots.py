"""Caches which certificates last verified each server, so that the next process loads only these.

To load all certificates of the trust store, about 150, takes 20 ms; to load one takes 0.3 ms. A small file keeps, for each
server, in which files of the trust store the certificates of its last verified chain are: offset and length, never a
certificate. The certificates are read from the currently trusted files, and if they do not verify a server, the whole store is
used. So the cache can never make a certificate trusted that the store does not contain. A wrong entry costs one more
connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from codex_framework.toolkit.regular_files import open_regular
from codex_lib_model_client.https import tls_files

__all__ = ["KnownRoots", "keep_roots", "kept_roots", "verified_chain"]

_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_FILE_LIMIT = 65_536
"""Maximum size of the file, in bytes. A larger one is not read."""
_STORE_LIMIT = 16 * 1024 * 1024
"""Maximum size of a file of the trust store, in bytes. Of a larger one, no places are kept."""
_SERVERS = 32
"""How many servers are kept, the latest ones."""

_kept: list[KnownRoots] = []


class KnownRoots:
    """The file. If it is missing, unreadable or damaged, nothing is known.

    Args:
        file: Its path. Its folder is not created.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._contexts: dict[tuple[str, tuple[str, ...]], ssl.SSLContext | None] = {}
        self._lock = threading.Lock()

    def server(self, provider: str) -> str | None:
        """Return the server, as ``host:port``, that a provider without an address in the configuration used last."""
        place = _table(self._content(), "providers").get(provider)
        return place if isinstance(place, str) else None

    def context(self, server: str, environ: Mapping[str, str]) -> ssl.SSLContext | None:
        """Return a TLS context that trusts only what verified a server last, or None if it is unknown or no longer there.

        Args:
            server: The server, as ``host:port``.
            environ: As for :func:`~codex_lib_model_client.https.tls_context`.
        """
        files = tls_files(environ)
        key = server, files
        with self._lock:
            if key not in self._contexts:
                self._contexts[key] = self._narrow(server, files)
            return self._contexts[key]

    def note(
        self,
        server: str,
        environ: Mapping[str, str],
        chain: Sequence[bytes] | None,
        *,
        provider: str | None = None,
        failed: bool = False,
    ) -> None:
        """Keep which certificates of the trust store are in a verified chain. Failures have no effect.

        Args:
            server: The server, as ``host:port``.
            environ: As for :meth:`context`.
            chain: The certificates of the chain that the whole store verified, in DER. Without them, the places that are kept
                stay.
            provider: The provider that this server belongs to, if the configuration does not say where it is.
            failed: Whether the context of :meth:`context` did not verify the server.
        """
        content = self._content()
        servers, providers = _table(content, "servers"), _table(content, "providers")
        before = dict(servers), dict(providers)
        if chain is not None:
            entry = _entry(tls_files(environ), set(chain), servers.get(server), failed=failed)
            if entry is not None:
                servers.pop(server, None)
                servers[server] = entry
        if provider is not None:
            providers.pop(provider, None)
            providers[provider] = server
        if (servers, providers) != before:
            self._write({"version": 1, "servers": _latest(servers), "providers": _latest(providers)})

    def _narrow(self, server: str, files: Sequence[str]) -> ssl.SSLContext | None:
        entry = _table(self._content(), "servers").get(server)
        if not isinstance(entry, Mapping) or not entry.get("places"):
            return None
        stores = [_store(file) for file in files]
        if any(store is None for store in stores) or entry.get("files") != _stamps(files):
            return None
        try:
            found = [_block(cast("list[bytes]", stores), place) for place in entry["places"]]
            context = ssl.create_default_context(cadata=b"".join(found))
        except (ValueError, TypeError, KeyError, IndexError, OSError):
            return None
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _content(self) -> dict[str, Any]:
        try:
            descriptor = open_regular(self._file, os.O_RDONLY | os.O_NOFOLLOW)
            data = _read(descriptor, _FILE_LIMIT)
            content = None if data is None else json.loads(data)
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) and content.get("version") == 1 else {}

    def _write(self, content: Mapping[str, Any]) -> None:
        temporary = f"{self._file}.{os.urandom(6).hex()}"
        with contextlib.suppress(OSError, ValueError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(json.dumps(content, separators=(",", ":")).encode())
            try:
                Path(temporary).replace(self._file)
            except OSError:
                Path(temporary).unlink()
                raise


def keep_roots(file: Path) -> KnownRoots:
    """Let this process use the file, and return what reads and writes it. Without this call, every process loads the whole store."""
    _kept[:] = [KnownRoots(file)]
    return _kept[0]


def kept_roots() -> KnownRoots | None:
    """Return what :func:`keep_roots` has set."""
    return _kept[0] if _kept else None


def verified_chain(secure: ssl.SSLObject | None) -> list[bytes]:
    """Return the certificates that verified the server, in DER. Empty means that Python does not tell."""
    public = getattr(secure, "get_verified_chain", None)  # since Python 3.13
    if public is not None:
        return list(public())
    inner = getattr(getattr(secure, "_sslobj", None), "get_verified_chain", None)
    return [] if inner is None else [certificate.public_bytes(2) for certificate in inner()]  # 2: DER


def _entry(files: Sequence[str], chain: set[bytes], old: Any, *, failed: bool) -> dict[str, Any] | None:
    """Return the cache entry of a server.

    An entry without positions means that its chain needs the whole store. None if it is unknown.
    """
    stamps = _stamps(files)
    stores = [_store(file) for file in files]
    if not files or stamps is None or any(store is None for store in stores) or stamps != _stamps(files):
        return None
    places = [
        [number, start, length]
        for number, store in enumerate(stores)
        if store is not None
        for start, length in _places(store, chain)
    ]
    known = isinstance(old, Mapping) and old.get("files") == stamps
    if known and (not old.get("places") or (failed and old.get("places") == places)):
        places = []
    return {"files": stamps, "places": places}


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name)
    return dict(table) if isinstance(table, dict) else {}


def _latest(table: Mapping[str, Any]) -> dict[str, Any]:
    return dict(list(table.items())[-_SERVERS:])


def _stamps(files: Sequence[str]) -> list[list[Any]] | None:
    """Return a value that changes when the files do, or None if one cannot be read."""
    try:
        found = [(file, Path(file).stat()) for file in files]
    except (OSError, ValueError):
        return None
    return [[file, status.st_size, status.st_mtime_ns] for file, status in found]


def _read(descriptor: int, limit: int) -> bytes | None:
    """Return the content of an open file, and close it, or None if it is longer than this many bytes."""
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def _store(path: str) -> bytes | None:
    """Return the content of a file of the trust store, or None if positions in it are not sufficient.

    A file may also contain revocation lists, and certificates that are trusted for some uses or not at all. Then the file must
    be read as a whole. Pipes are not read, because they can be read only once.
    """
    try:
        if not Path(path).is_file():
            return None
        data = _read(open_regular(path), _STORE_LIMIT)
    except (OSError, ValueError):
        return None
    return data if data is not None and data.count(b"-----BEGIN ") == data.count(_BEGIN) else None


def _block(stores: Sequence[bytes], place: Any) -> bytes:
    """Return the certificate at a place, in DER.

    Raises:
        ValueError, TypeError, IndexError: There is no certificate.
    """
    number, start, length = place
    if min(number, start, length) < 0:
        raise ValueError("the place is not valid")
    block = stores[number][start : start + length]
    if block.count(_BEGIN) != 1:
        raise ValueError("the place does not contain exactly one certificate")
    return ssl.PEM_cert_to_DER_cert(block.decode("ascii"))


def _places(store: bytes, chain: set[bytes]) -> list[tuple[int, int]]:
    """Return offset and length of the certificates in a file that belong to a chain."""
    places: list[tuple[int, int]] = []
    start = store.find(_BEGIN)
    while start >= 0 and (end := store.find(_END, start)) >= 0:
        length = end + len(_END) - start
        with contextlib.suppress(ValueError):  # OpenSSL accepts what Python does not
            if ssl.PEM_cert_to_DER_cert(store[start : start + length].decode()) in chain:
                places.append((start, length))
        start = store.find(_BEGIN, start + length)
    return places
