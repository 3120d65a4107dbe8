"""The server on loopback that the browser comes back to."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from codex_framework.toolkit.terminal_text import one_line
from codex_lib_model_client.login.errors import LoginError

__all__ = ["PORTS", "CallbackServer"]

PORTS = (1455, 1457)
"""The ports that the issuer sends browsers back to (Codex's)."""

_PATH = "/auth/callback"
_HEAD_BYTES = 65_536
_HEAD_S = 10.0
_HEADERS_OF_PROGRAMS = frozenset({b"host", b"connection"})
"""The headers of Codex's request to cancel. Browsers always send others too, and pages cannot leave them out."""

_PAGE = (
    "<!doctype html><meta charset=utf-8><title>codex-framework</title>"
    "<p style='font: 16px sans-serif; margin: 3em'>{text}</p>"
)
_DONE = "You are logged in. You can close this window."
_FAILED = "The login failed. The program that started it says why. You can close this window."


class CallbackServer:
    """Waits for the browser. Use it as an async context manager.

    Requests for other paths, and with another state, are answered with an error and otherwise ignored: a page in the browser
    may send them, and must not be able to end the login. A program can end it with ``/cancel``, as Codex does to take over the
    port.

    Args:
        state: The secret that the browser must bring along.
        finish: Called with the code; it exchanges and stores. The browser is told whether it succeeded.
        ports: The ports to try, in this order.
    """

    def __init__(self, state: str, finish: Callable[[str], Awaitable[None]], ports: tuple[int, ...] = PORTS) -> None:
        self._state = state
        self._finish = finish
        self._ports = ports
        self._outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._busy = False

    async def __aenter__(self) -> Self:
        for port in self._ports:
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_HEAD_BYTES)
                return self
        listed = " and ".join(map(str, self._ports))
        raise LoginError(
            f"the ports {listed}, one of which the browser must come back to, are in use",
            reason="port",
            hint="End the programs that use them, or run `codex-framework login --device-auth`.",
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._server.wait_closed()

    @property
    def port(self) -> int:
        """The port."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def redirect_uri(self) -> str:
        """The address that the browser is sent to."""
        return f"http://127.0.0.1:{self.port}{_PATH}"

    async def wait(self, timeout_s: float) -> None:
        """Wait until the login is finished.

        Raises:
            LoginError: It failed, or the time limit has passed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._outcome)
        except TimeoutError:
            fact = f"nobody logged in within {timeout_s:g} seconds"
            raise LoginError(fact, reason="timeout", hint="Run the login again.") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                line = await reader.readline()
                names = set()
                while header := (await reader.readline()).strip():
                    names.add(header.partition(b":")[0].strip().lower())
            status, text = await self._answer(
                line.decode("latin-1").split(" "), by_program=names <= _HEADERS_OF_PROGRAMS
            )
            body = _PAGE.format(text=text).encode()
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n\r\n"
            )
            writer.write(head.encode() + body)
            async with asyncio.timeout(_HEAD_S):
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, words: list[str], *, by_program: bool) -> tuple[str, str]:
        """Return the status and the text for a request, and finish the login if this is the expected request.

        Args:
            by_program: Whether the request cannot come from a browser.
        """
        if len(words) != 3 or words[0] != "GET":
            return "405 Method Not Allowed", "This is not a request of a browser."
        target = urlsplit(words[1])
        if target.path == "/cancel" and by_program:
            self._end(LoginError("the login was cancelled", reason="denied", hint="Run the login again."))
            return "200 OK", "The login was cancelled."
        if target.path != _PATH:
            return "404 Not Found", "There is nothing here."
        query = dict(parse_qsl(target.query))
        if not hmac.compare_digest(query.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "State mismatch: this answer does not belong to the login that is under way."
        if self._busy or self._outcome.done():
            return "400 Bad Request", "This answer has already been used."
        self._busy = True
        return await self._finished(query)

    async def _finished(self, query: Mapping[str, str]) -> tuple[str, str]:
        try:
            if "error" in query or not query.get("code"):
                raise _denied(query)
            await self._finish(query["code"])
        except LoginError as error:
            self._end(error)
            return "400 Bad Request", _FAILED
        except BaseException as error:
            self._end(LoginError(f"the login failed ({type(error).__name__})", reason="protocol"))
            raise
        self._end(None)
        return "200 OK", _DONE

    def _end(self, error: LoginError | None) -> None:
        if self._outcome.done():
            return
        if error is None:
            self._outcome.set_result(None)
        else:
            self._outcome.set_exception(error)
            self._outcome.exception()  # it may come after nobody waits any more


def _denied(query: Mapping[str, str]) -> LoginError:
    said = query.get("error_description") or query.get("error") or ""
    shown = one_line(said)
    if not shown:
        fact = "Missing authorization code. Sign-in could not be completed."
    elif query.get("error") == "access_denied" and "missing_codex_entitlement" in said:
        fact = "This account is not currently authorized to use Codex in this workspace."
    else:
        fact = f"Sign-in could not be completed: {shown}"
    return LoginError(fact, reason="denied", hint="Run the login again, or ask the administrator of your workspace.")
