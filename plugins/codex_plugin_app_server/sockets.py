"""Clients over WebSockets, by TCP or by a unix socket. Each message is a text frame, or a compressed one if the client offers that."""

from __future__ import annotations

import contextlib
import errno
import http
import os
import resource
import socket
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from codex_framework import CodexError
from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.local_clients import connection_owner, is_local_name
from codex_plugin_app_server.addresses import Access, TcpAddress

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from codex_plugin_app_server.compression import CompressedMessages

__all__ = ["SocketTransport", "listen"]

_HEADER = "x-codex-app-server-compression"
"""The header with which a client offers compression, and the server accepts it."""

_COMPRESSION = "zstd-stream-v1"

_LONGEST_MESSAGE = 64 << 20
"""A longer message ends the connection."""

_LONGEST_PATH = 107
"""Bytes that fit into ``sockaddr_un`` on Linux, without the last one."""

_MOST_CLIENTS = 256
_CLOSE_WAIT_S = 2.0
_START_S = 5.0
"""How long the start of another server may take."""

_HEALTH = ("/readyz", "/healthz")

Serve: TypeAlias = Callable[["SocketTransport"], Awaitable[None]]
"""Serves one client until it leaves."""


class SocketTransport:
    """One client's WebSocket."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._compressed: CompressedMessages | None = None
        if connection.response is not None and _HEADER in connection.response.headers:
            from codex_plugin_app_server.compression import CompressedMessages

            self._compressed = CompressedMessages(_LONGEST_MESSAGE)

    async def receive(self) -> str | bytes | None:
        """Return the next message. None if the client has left or has sent a message that is too long."""
        from websockets.exceptions import ConnectionClosed

        try:
            message = await self._connection.recv()
        except ConnectionClosed:
            return None
        if self._compressed is not None and isinstance(message, bytes):
            return self._compressed.decompress(message)
        return message

    async def send(self, messages: list[bytes]) -> None:
        """Send messages, and wait until the client reads. Raises OSError if it is gone."""
        from websockets.exceptions import ConnectionClosed

        try:
            for message in messages:
                if self._compressed is None:
                    await self._connection.send(message, text=True)
                else:
                    await self._connection.send(self._compressed.compress(message))
        except ConnectionClosed as error:
            raise ConnectionResetError(str(error)) from None

    async def aclose(self) -> None:
        """Close it. Safe to call twice."""
        await self._connection.close()


@asynccontextmanager
async def listen(address: TcpAddress | Path, access: Access, serve: Serve) -> AsyncIterator[str]:
    """Accept clients, and yield the URL at which they are accepted.

    Args:
        address: An address, or the path of a unix socket.

    Raises:
        CodexError: It is not possible to listen there, for example because another server does.
    """
    from websockets.asyncio.server import serve as serve_tcp
    from websockets.asyncio.server import unix_serve

    door = _Door(address, access)

    async def handle(connection: ServerConnection) -> None:
        with door.place():
            await serve(SocketTransport(connection))

    options: dict[str, Any] = {
        "process_request": door.answer,
        "process_response": _accept_compression,
        "compression": None,  # messages are small, and clients on the same machine gain nothing
        "max_size": _LONGEST_MESSAGE,
        "close_timeout": _CLOSE_WAIT_S,
        "server_header": None,
    }
    async with AsyncExitStack() as stack:
        try:
            if isinstance(address, TcpAddress):
                server = await stack.enter_async_context(serve_tcp(handle, address.host, address.port, **options))
                bound = address.evolve(port=next(iter(server.sockets)).getsockname()[1])
                url = f"ws://{bound}"
            else:
                at = stack.enter_context(_bound_socket(address))
                await stack.enter_async_context(unix_serve(handle, sock=at, **options))
                url = f"unix://{address}"
        except OSError as error:
            fact = f"The server cannot listen at {address}: {error.strerror or error}."
            raise CodexError(fact, slug="listen", hint="Choose another address with --listen.") from None
        yield url


class _Door:
    """Answers the HTTP request with which each client begins."""

    def __init__(self, address: TcpAddress | Path, access: Access) -> None:
        self._address = address
        self._access = access
        self._clients = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Count a client while it is connected."""
        self._clients += 1
        try:
            yield
        finally:
            self._clients -= 1

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the response to a request that opens no WebSocket. None lets the client in."""
        if "Origin" in request.headers or self._is_misled(request):
            return connection.respond(http.HTTPStatus.FORBIDDEN, "")
        if request.path.partition("?")[0] in _HEALTH:
            return connection.respond(http.HTTPStatus.OK, "")
        authorization = request.headers.get_all("Authorization")
        refusal = self._access.refusal(authorization[0] if len(authorization) == 1 else None)
        if refusal is not None:
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, refusal)
        if self._is_other_user(connection):
            return connection.respond(http.HTTPStatus.FORBIDDEN, "another user of this machine has started this server")
        if self._clients >= _most_clients():
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "Server overloaded; retry later.")
        return None

    def _is_misled(self, request: Request) -> bool:
        """Return whether the client reached this machine by a foreign name, as a page does that rebinds its domain."""
        if not isinstance(self._address, TcpAddress) or self._access.token_digest is not None:
            return False
        hosts = request.headers.get_all("Host")
        return len(hosts) != 1 or not is_local_name(hosts[0])

    def _is_other_user(self, connection: ServerConnection) -> bool:
        """Return whether a client without a token belongs to another user.

        This works only on Linux; elsewhere, a token is required.
        """
        if not isinstance(self._address, TcpAddress) or self._access.token_digest is not None:
            return False
        connected = connection.transport.get_extra_info("socket")
        owner = connection_owner(connected.getsockname(), connected.getpeername())
        return owner is not None and owner not in (os.getuid(), 0)


def _accept_compression(_: ServerConnection, request: Request, response: Response) -> None:
    """Accept the compression in the response that opens a WebSocket, if the client offers it."""
    if response.status_code == http.HTTPStatus.SWITCHING_PROTOCOLS and request.headers.get_all(_HEADER) == [
        _COMPRESSION
    ]:
        response.headers[_HEADER] = _COMPRESSION


def _most_clients() -> int:
    """Return how many clients may be connected. Each takes a descriptor, of which threads and commands need most."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CLIENTS if most == resource.RLIM_INFINITY else min(_MOST_CLIENTS, most // 4)


@contextlib.contextmanager
def _bound_socket(path: Path) -> Iterator[socket.socket]:
    """Bind a socket that only this user can connect to, and remove it at the end.

    Raises:
        OSError: Something else is there, or a server listens there.
    """
    if len(bytes(path)) > _LONGEST_PATH:
        raise OSError(
            errno.ENAMETOOLONG, f"the path has {len(bytes(path))} bytes, and at most {_LONGEST_PATH} are possible"
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as bound:
        with _locked(path.parent):
            _remove_dead_socket(path)
            bound.bind(str(path))
            path.chmod(0o600)  # nobody can connect before it listens
            bound.listen(_MOST_CLIENTS)
            made = path.lstat()
        try:
            yield bound
        finally:
            with contextlib.suppress(OSError):
                if os.path.samestat(path.lstat(), made):
                    path.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Prevent other servers from starting in a folder, because a socket that does not listen yet looks like a dead server's.

    Raises:
        OSError: Other users can replace files in the folder, or another server does not finish its start.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        is_open = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if is_open or found.st_uid not in (os.getuid(), 0):
            raise PermissionError(errno.EPERM, "other users can replace files in the folder of the socket")
        end = time.monotonic() + _START_S
        while not try_lock(descriptor):
            if time.monotonic() > end:
                raise FileExistsError(errno.EEXIST, "another server is starting in the folder of the socket")
            time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _remove_dead_socket(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "something else is there, which is not a socket")
    with socket.socket(socket.AF_UNIX) as tried, contextlib.suppress(BlockingIOError):
        tried.settimeout(0)  # a server with much to do accepts nobody at once
        try:
            tried.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise FileExistsError(errno.EEXIST, "another server listens there")
