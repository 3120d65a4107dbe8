"""Posting to a webhook with httpx. Nothing of the answer but its status is read."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from codex_framework import __version__
from codex_lib_model_client.https import httpx_module, loading_failure, tls_context
from codex_plugin_notify.target import Target, signature

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Failed", "Poster"]

_RETRYABLE = frozenset({408, 425, 429})
_LONGEST_WAIT_S = 3600.0


class Failed(Exception):  # noqa: N818  # what happened to a message
    """A message was not accepted. The text is for the user, and contains no secret.

    Attributes:
        retryable: Whether the same request may succeed later.
        retry_after_s: How long the server wants to be left alone, in seconds.
    """

    def __init__(self, text: str, *, retryable: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class Poster:
    """Posts messages over one client. Use it as an async context manager.

    Certificates come from ``SSL_CERT_FILE``, ``SSL_CERT_DIR`` or ``certifi``, proxies from the usual variables.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: Any = None

    async def __aenter__(self) -> Self:
        """Make the client.

        Raises:
            Failed: The certificates or the proxy cannot be used.
        """
        httpx = httpx_module()
        try:
            context = tls_context(self._target.environ)
        except (OSError, ValueError) as error:
            raise Failed(f"{loading_failure(error, self._target.environ)}. Fix this variable.") from error
        try:
            self._client = httpx.AsyncClient(verify=context, timeout=None, follow_redirects=False)
        except (httpx.InvalidURL, ValueError, ImportError) as error:
            hint = "Fix HTTP_PROXY, HTTPS_PROXY and ALL_PROXY."
            raise Failed(f"the proxy in the environment cannot be used. {hint}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self._client.aclose()

    async def post(self, message_id: str, body: bytes) -> None:
        """Post a message once.

        Raises:
            Failed: It was not accepted.
        """
        httpx = httpx_module()
        shown, limit_s = self._target.shown, self._target.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                headers = self._headers(message_id, body)
                request = self._client.build_request("POST", self._target.url, content=body, headers=headers)
                response = await self._client.send(request, stream=True)
                await response.aclose()  # its body is of no use, and may never end
        except TimeoutError:
            raise Failed(f"{shown} did not answer within {limit_s:g} s", retryable=True) from None
        except httpx.ConnectError as error:
            raise Failed(f"{shown} cannot be reached{_reason(error)}", retryable=True) from None
        except httpx.RemoteProtocolError:
            raise Failed(f"{shown} did not answer in HTTP", retryable=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ValueError) as error:
            raise Failed(f"the connection to {shown} failed ({type(error).__name__})", retryable=True) from None
        _check(response.status_code, response.headers, shown)

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        now = int(time.time())
        own = {
            "user-agent": f"codex-framework/{__version__}",
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(now),
        }
        if self._target.secret:
            own["webhook-signature"] = signature(self._target.secret, message_id, now, body)
        return {**own, **self._target.headers}


def _check(status: int, headers: Mapping[str, str], shown: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise Failed(f"{shown} redirects, which is not followed. Write the URL that it redirects to")
    retryable = status in _RETRYABLE or status >= 500
    raise Failed(
        f"{shown} answered with HTTP status {status}", retryable=retryable, retry_after_s=_retry_after(headers)
    )


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("retry-after", "")
    return min(float(value), _LONGEST_WAIT_S) if value.isascii() and value.isdigit() else 0.0


def _reason(error: Exception) -> str:
    """Return the reason of the operating system, the resolver or TLS, which contains no URL."""
    import socket
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f": its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, (ssl.SSLError, socket.gaierror)):
            return f": {cause.strerror or cause.reason}" if isinstance(cause, ssl.SSLError) else f": {cause.strerror}"
        if isinstance(cause, OSError) and cause.errno:
            return f": {os.strerror(cause.errno)}"
        cause = cause.__cause__ or cause.__context__
    return ""
