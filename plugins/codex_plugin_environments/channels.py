"""The two ways to an exec-server: the standard streams of a program, and a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codex_framework.contract.urls import shown_url
from codex_framework.toolkit.programs import found_program
from codex_plugin_environments.configuration import Place

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["Channel", "opened"]

_LONGEST = 16 * 1024 * 1024
"""Maximum size of a message in bytes. The largest are listings of folders; files and output come in smaller parts."""

_CLOSE_S = 2.0
_KEPT_CHARS = 400
"""The maximum length of the shown text from the program's standard error."""


class Channel:
    """A connection that carries one JSON text per message."""

    @abstractmethod
    async def send(self, text: str) -> None:
        """Send an ASCII text. Raises ConnectionError."""
        raise NotImplementedError

    @abstractmethod
    async def receive(self) -> str | bytes:
        """Return the next message. Raises ConnectionError, with the reason, at the end."""
        raise NotImplementedError

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connection."""
        raise NotImplementedError


async def opened(place: Place, environ: Mapping[str, str]) -> Channel:
    """Open the way to an exec-server. Raises ConnectionError."""
    if place.program:
        return await _Streams.of(place, environ)
    return await _Socket.to(place)


class _Streams(Channel):
    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._name = name
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._said = b""
        self._errors = asyncio.ensure_future(self._listen(process.stderr))
        self._end = asyncio.ensure_future(process.wait())

    @classmethod
    async def of(cls, place: Place, environ: Mapping[str, str]) -> _Streams:
        pipe = asyncio.subprocess.PIPE
        env = {**environ, **place.env}
        program = found_program(place.program, env.get("PATH", os.defpath), cwd=place.cwd)
        if program is None:
            raise ConnectionError(
                f"{place.program} cannot be started: it is not found in a folder with an absolute path"
            )
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *place.args,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=env,
                cwd=place.cwd,
                limit=_LONGEST,
                start_new_session=True,  # an interrupt at the terminal is not for it
            )
        except (OSError, ValueError) as error:
            raise ConnectionError(f"{place.program} cannot be started: {error}") from error
        return cls(process, place.program)

    async def send(self, text: str) -> None:
        try:
            self._stdin.write(text.encode("ascii") + b"\n")
            await self._stdin.drain()
        except (OSError, RuntimeError):
            raise await self._exit_reason() from None

    async def receive(self) -> bytes:
        try:
            line = await self._stdout.readline()
        except ValueError:
            raise ConnectionError(f"{self._name} sent a message of more than {_LONGEST:,} bytes") from None
        if not line:
            raise await self._exit_reason()
        return line

    async def _exit_reason(self) -> ConnectionError:
        """Return why the program has ended, with its last message."""
        await asyncio.wait((self._end, self._errors), timeout=_CLOSE_S)
        code = self._process.returncode
        text = self._said.decode("utf-8", "replace").strip()[-_KEPT_CHARS:]
        state = "has closed its output" if code is None else f"has ended with exit code {code}"
        return ConnectionError(f"{self._name} {state}{': ' if text else ''}{text}")

    async def _drain(self) -> None:
        """Drop the remaining output of the program, which may block until it is read. Only then is its end noticed."""
        while await self._stdout.read(1 << 16):
            pass

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(1 << 16):
            self._said = (self._said + data)[-4 * _KEPT_CHARS :]

    async def aclose(self) -> None:
        self._stdin.close()  # which ends an exec-server with its processes
        rest = asyncio.ensure_future(self._drain())
        for end in (None, self._process.terminate, self._process.kill):
            with contextlib.suppress(ProcessLookupError):
                if end is not None:
                    end()
            if (await asyncio.wait((self._end,), timeout=_CLOSE_S))[0]:
                break
        for task in (self._end, self._errors, rest):
            task.cancel()
        await asyncio.gather(self._end, self._errors, rest, return_exceptions=True)
        transport: Any = self._process._transport  # type: ignore[attr-defined]  # noqa: SLF001  # nothing else closes its pipes
        transport.close()


class _Socket(Channel):
    def __init__(self, socket: ClientConnection, name: str) -> None:
        self._socket = socket
        self._name = name

    @classmethod
    async def to(cls, place: Place) -> _Socket:
        import logging

        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        class Straight(connect):
            """Follows no redirect, because another host would get the token."""

            def process_redirect(self, exc: Exception) -> Exception | str:
                return exc

        silent = logging.Logger("websockets.client")  # the library's own would write the token
        silent.disabled = True
        name = shown_url(place.url)
        headers = {"Authorization": f"Bearer {place.token}"} if place.token else {}
        try:
            socket = await Straight(
                place.url,
                additional_headers=headers,
                max_size=_LONGEST,
                open_timeout=place.connect_timeout_s,
                close_timeout=_CLOSE_S,
                compression=None,
                logger=silent,
            )
        except TimeoutError:
            raise ConnectionError(f"{name} did not answer within {place.connect_timeout_s:g} s") from None
        except (OSError, WebSocketException, ValueError) as error:
            raise ConnectionError(f"{name} cannot be reached: {error}") from error
        return cls(socket, name)

    async def send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(text)
        except (ConnectionClosed, OSError) as error:
            raise self._closed(error) from None

    async def receive(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._socket.recv()
        except (ConnectionClosed, OSError) as error:
            raise self._closed(error) from None

    def _closed(self, error: Exception) -> ConnectionError:
        return ConnectionError(f"{self._name} has closed the connection: {error}")

    async def aclose(self) -> None:
        await self._socket.close()
