"""A transport based on httpx, for TLS, proxies and everything else that a network may require."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from codex_framework.contract.errors import ModelError
from codex_framework.toolkit.https import httpx_module, tls_context
from codex_framework.toolkit.model_server.transport_errors import CONNECT_S, CutError, SendError, SilenceError

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["HttpxTransport"]

_CLEARLY_S = 0.05
"""How much shorter a time limit must be to count, in seconds. Two limits that expire together leave a cancellation pending."""


class HttpxTransport:
    """A :class:`~codex_framework.toolkit.model_server.transport.Transport` based on httpx.

    Args:
        secure: Whether TLS may be used. If not, no certificates are loaded, which saves 30 ms.
    """

    def __init__(self, *, secure: bool) -> None:
        # Loading certificates does not hold the GIL, so it runs in parallel with the import.
        certificates = _load_certificates() if secure else None
        httpx = httpx_module()
        self._client: Any = httpx.AsyncClient(
            verify=False if certificates is None else certificates(),
            timeout=None,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=60),
        )

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, head_s: float, on_sent: Callable[[], None]
    ) -> HttpxAnswer:
        """Send a request; see :meth:`Transport.post <codex_framework.toolkit.model_server.transport.Transport.post>`."""
        httpx = httpx_module()
        # httpx limits the time for each piece of the head, `limit` the time for the whole head. They must not expire together:
        # a cancellation that coincides with another error would stay pending for the caller.
        timeouts: dict[str, float | None] = {"connect": CONNECT_S, "read": head_s + 5, "write": head_s, "pool": None}
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(None)

        async def trace(event: str, _: Any) -> None:
            if event.endswith("send_request_body.complete"):
                limit.reschedule(loop.time() + head_s)
                on_sent()

        extensions = {"timeout": timeouts, "trace": trace}
        try:
            request = self._client.build_request(
                "POST", url, content=body, headers=dict(headers), extensions=extensions
            )
            async with limit:
                response = await self._client.send(request, stream=True)
            return HttpxAnswer(response, timeouts)
        except (httpx.ReadTimeout, TimeoutError) as error:
            raise SilenceError from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise SendError(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class HttpxAnswer:
    """An :class:`~codex_framework.toolkit.model_server.transport.Answer` of httpx."""

    def __init__(self, response: httpx.Response, timeouts: dict[str, float | None]) -> None:
        self._response = response
        self._timeouts = timeouts
        self._raw = response.aiter_raw()
        self._limit_s: float | None = None
        self.status = response.status_code
        self.phrase = response.reason_phrase
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the body, or ``b""`` at its end."""
        httpx = httpx_module()
        if self._limit_s is None:
            self._timeouts["read"] = self._limit_s = within_s  # httpx takes it once, for all pieces
        try:
            if within_s > self._limit_s - _CLEARLY_S:
                return await anext(self._raw, b"")
            async with asyncio.timeout(within_s):
                return await anext(self._raw, b"")
        except (httpx.ReadTimeout, TimeoutError) as error:
            raise SilenceError from error
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise CutError(str(error)) from error

    async def aclose(self) -> None:
        """Release the response."""
        await self._response.aclose()


@cache
def _load_certificates() -> Callable[[], ssl.SSLContext]:
    """Start loading the process's TLS context in a thread, and return a function that waits for it.

    Raises:
        ModelError: The certificates cannot be loaded. Raised by the returned function.
    """
    outcome: list[ssl.SSLContext | Exception] = []

    def load() -> None:
        try:
            outcome.append(tls_context())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=load, name="certificates", daemon=True)
    thread.start()

    def wait() -> ssl.SSLContext:
        thread.join()
        if isinstance(outcome[0], Exception):
            raise ModelError(
                f"the certificates for checking servers cannot be loaded: {outcome[0]}",
                slug="certificates",
                hint="Fix SSL_CERT_FILE and SSL_CERT_DIR, or remove them from the environment.",
            ) from outcome[0]
        return outcome[0]

    return wait
