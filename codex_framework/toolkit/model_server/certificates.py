"""The TLS context of a transport, made in a thread of its own while the first request is prepared."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ModelError
from codex_framework.toolkit.https import tls_context

if TYPE_CHECKING:
    import ssl

__all__ = ["Certificates"]


class Certificates:
    """The trusted certificates. Loading them takes some 20 ms, most of it without the GIL, and starts at once.

    Args:
        env: The environment variables that name the certificates, as for :func:`~codex_framework.toolkit.https.tls_context`.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._outcome: ssl.SSLContext | Exception | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._load, name="certificates", daemon=True).start()

    async def context(self) -> ssl.SSLContext:
        """Wait for the context, and return it.

        Raises:
            ModelError: The certificates cannot be loaded.
        """
        with self._lock:
            loaded = None if self._outcome is not None else asyncio.Event()
            if loaded is not None:
                self._waiting.append((asyncio.get_running_loop(), loaded))
        if loaded is not None:
            await loaded.wait()
        if isinstance(self._outcome, Exception):
            raise ModelError(
                f"the certificates for checking servers cannot be loaded: {self._outcome}",
                slug="certificates",
                hint="Fix CODEX_CA_CERTIFICATE, SSL_CERT_FILE and SSL_CERT_DIR, or remove them from the environment.",
            ) from self._outcome
        assert self._outcome is not None
        return self._outcome

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
