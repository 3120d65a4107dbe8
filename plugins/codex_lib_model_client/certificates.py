"""The TLS contexts of a transport: all trusted certificates, loaded in a separate thread, and the ones that last verified a server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ModelError
from codex_lib_model_client.https import loading_failure, tls_context
from codex_lib_model_client.known_roots import kept_roots

if TYPE_CHECKING:
    import ssl

    from codex_lib_model_client.preconnect import EarlyConnection

__all__ = ["Certificates"]


class Certificates:
    """The trusted certificates. Loading them takes some 20 ms, most of it without the GIL.

    It starts immediately. In a process that remembers which certificates last verified servers, it starts when they are needed.

    Args:
        env: The environment variables that name the certificates, as for :func:`~codex_lib_model_client.https.tls_context`.
        provider: The model provider whose server this is, if it is one.
    """

    def __init__(self, env: Mapping[str, str], provider: str | None = None) -> None:
        self._env = dict(env)
        self._provider = provider
        self._roots = kept_roots()
        self._noted: tuple[str, list[bytes] | None, bool] | None = None
        self._outcome: ssl.SSLContext | Exception | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._lock = threading.Lock()
        self._begun = False
        if self._roots is None:
            self._begin()

    async def context(self) -> ssl.SSLContext:
        """Wait for the context, and return it.

        Raises:
            ModelError: The certificates cannot be loaded.
        """
        self._begin()
        with self._lock:
            loaded = None if self._outcome is not None else asyncio.Event()
            if loaded is not None:
                self._waiting.append((asyncio.get_running_loop(), loaded))
        if loaded is not None:
            await loaded.wait()
        if isinstance(self._outcome, Exception):
            raise ModelError(
                loading_failure(self._outcome, self._env),
                slug="certificates",
                hint="Fix CODEX_CA_CERTIFICATE, SSL_CERT_FILE and SSL_CERT_DIR, or remove them from the environment.",
            ) from self._outcome
        assert self._outcome is not None
        return self._outcome

    @property
    def keeps(self) -> bool:
        """Whether this process keeps what verified servers."""
        return self._roots is not None

    def known_context(self, server: str) -> ssl.SSLContext | None:
        """Return a context that trusts only the certificates that verified this server (``host:port``) last, if they are known."""
        return None if self._roots is None else self._roots.context(server, self._env)

    def take_connection(self, host: str, port: int) -> EarlyConnection | None:
        """Return the unclaimed connection to a server that this process opens before its first request, if any."""
        if self._roots is None:
            return None
        from codex_lib_model_client.preconnect import take_connection

        return take_connection(host, port, self._env)

    def note_verified(self, server: str, chain: list[bytes] | None, *, failed: bool) -> None:
        """Note the certificates that verified a server; see :meth:`keep`.

        Args:
            server: The server, as ``host:port``.
            chain: The verified chain, in DER, unless the context of :meth:`known_context` was used.
            failed: Whether that context did not verify the server, but the one with all certificates did.
        """
        self._noted = server, chain, failed

    def keep(self) -> None:
        """Save the noted certificates for the next process, in a separate thread. Call it when this process is idle."""
        noted, self._noted = self._noted, None
        if noted is not None and self._roots is not None:
            threading.Thread(target=self._keep, args=noted, name="known roots").start()

    def _keep(self, server: str, chain: list[bytes] | None, failed: bool) -> None:  # noqa: FBT001  # of Thread
        assert self._roots is not None
        self._roots.note(server, self._env, chain, provider=self._provider, failed=failed)

    def _begin(self) -> None:
        with self._lock:
            begun, self._begun = self._begun, True
        if not begun:
            threading.Thread(target=self._load, name="certificates", daemon=True).start()

    def _load(self) -> None:
        outcome: ssl.SSLContext | Exception
        try:
            outcome = tls_context(self._env)
        except Exception as error:
            outcome = error
        with self._lock:
            self._outcome = outcome
        for loop, loaded in self._waiting:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any longer
                loop.call_soon_threadsafe(loaded.set)
