"""The server on loopback that the browser comes back to."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from codex_framework import Value
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.texts import one_line

__all__ = ["CallbackServer", "Redirected"]

_HEAD_BYTES = 16_384
_HEAD_S = 10.0
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>codex-framework</title>"
    "<p style='font: 16px sans-serif; margin: 3em'>{text}</p>"
)
_DONE = "You are logged in. You can close this window."
_FAILED = "The login failed. The terminal says why. You can close this window."


class Redirected(Value):
    """The authorization server's response through the browser.

    Attributes:
        code: The code to exchange for tokens. Empty if the login failed.
        issuer: The authorization server's name for itself, if it sent one.
        error: Why the login failed, as a short word of OAuth. Empty if it succeeded.
        description: The same as a sentence. Empty if missing.
    """

    code: str
    issuer: str | None
    error: str
    description: str


class CallbackServer:
    """Waits for the browser. Use it as a context manager.

    Requests for other paths, and with another state, are answered with an error and otherwise ignored: a page in the browser
    may send them, and must not be able to end the login.

    Args:
        port: The port; 0 means any.
        url: The address that the browser is sent to. By default, this server.
        state: The secret that the browser must bring along.
    """

    def __init__(self, *, port: int, url: str | None, state: str) -> None:
        self._port = port
        self._url = url
        self._state = state
        self._path = urlsplit(url).path or "/" if url is not None else "/callback"
        self._outcome: asyncio.Future[Redirected] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        host = "127.0.0.1"
        if self._url is not None and urlsplit(self._url).hostname not in ("localhost", "127.0.0.1", "::1"):
            host = "0.0.0.0"  # noqa: S104  # the browser comes through a proxy, which the address names
        try:
            self._server = await asyncio.start_server(self._serve, host, self._port, limit=_HEAD_BYTES)
        except OSError as error:
            raise LoginFailed(
                f"port {self._port} for the answer of the browser cannot be opened: {error.strerror or error}",
                hint="Set mcp_oauth_callback_port to a free port, or remove it.",
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        """The address that the browser is sent to."""
        if self._url is not None:
            return self._url
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self._path}"

    async def wait(self, timeout_s: float) -> Redirected:
        """Wait for the browser.

        Raises:
            LoginFailed: It does not come in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(self._outcome)
        except TimeoutError:
            raise LoginFailed(
                f"nobody logged in within {timeout_s:g} seconds", kind="timeout", hint="Run the login again."
            ) from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
                status, text = self._answer(line.decode("latin-1").split(" "))
                body = _PAGE.format(text=text).encode()
                head = (
                    f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
                    "connection: close\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    def _answer(self, words: list[str]) -> tuple[str, str]:
        """Return the status and the text for a request, and record the outcome if this is the expected request."""
        if len(words) != 3 or words[0] != "GET":
            return "405 Method Not Allowed", "This is not a request of a browser."
        target = urlsplit(words[1])
        if target.path != self._path:
            return "404 Not Found", "There is nothing here."
        query = dict(parse_qsl(target.query))
        if not hmac.compare_digest(query.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This answer does not belong to the login that is under way."
        outcome = _parse_redirect(query)
        if not self._outcome.done():
            self._outcome.set_result(outcome)
        return ("200 OK", _DONE) if outcome.code else ("400 Bad Request", _FAILED)


def _parse_redirect(query: Mapping[str, str]) -> Redirected:
    error = query.get("error", "")
    code = "" if error else query.get("code", "")
    return Redirected(code, query.get("iss"), one_line(error), one_line(query.get("error_description", "")))
