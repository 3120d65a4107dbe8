"""The server over streamable HTTP: who may reach it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from codex_framework import CodexError
from codex_plugin_mcp_server.options import Address, Options

__all__ = ["PATH", "listen", "serve_http"]

PATH = "/mcp"

_BACKLOG = 128
_GRACE_S = 1
"""How long open responses may take when the server ends, in seconds."""


class _Uvicorn(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield


class _Authorized:
    """Lets requests pass that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._may_pass(scope):
            await _refuse(send)
            return
        await self._app(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, space, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        return hmac.compare_digest(scheme.lower() + space + token.strip(), self._token)


async def _refuse(send: Send) -> None:
    body = b"This server requires its token: Authorization: Bearer TOKEN"
    headers = [
        (b"www-authenticate", b"Bearer"),
        (b"content-type", b"text/plain"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def listen(address: Address) -> socket.socket:
    """Return a listening socket.

    Raises:
        CodexError: The address cannot be used.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, target = found[0]
        return socket.create_server(target[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise CodexError(
            f"cannot listen on {address}: {error.strerror or error}",
            slug="serve-mcp",
            hint="Name a free port of this machine with --http HOST:PORT. Port 0 chooses one.",
        ) from error


async def serve_http(server: Server[Any], options: Options, listener: socket.socket) -> None:
    """Serve until this is cancelled."""
    assert options.address is not None
    port = listener.getsockname()[1]
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=_security(options, options.address, port)
    )
    if options.token is not None:
        app = _Authorized(app, options.token)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
    )
    running = _Uvicorn(config)
    _announce(options, Address(options.address.host, port))
    serving = asyncio.ensure_future(running.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        running.should_exit = True
        await serving


def _announce(options: Options, address: Address) -> None:
    print(f"listening on http://{address}{PATH}", file=sys.stderr, flush=True)
    if options.token is None and not address.is_loopback:
        warning = f"everyone who can reach {address} can run commands as this user: no token is required"
    elif options.token is None:
        warning = "every user of this machine can connect: no token is required (--bearer-token-env-var)"
    else:
        return
    print(f"warning: {warning}", file=sys.stderr, flush=True)


def _security(options: Options, address: Address, port: int) -> TransportSecuritySettings:
    """Return the accepted values of the headers by which a web page that reaches the server is recognised."""
    names = {address.host, socket.gethostname(), *options.hosts}
    if address.is_loopback or address.host in ("0.0.0.0", "::"):  # noqa: S104  # compared, not bound
        names |= {"127.0.0.1", "localhost", "::1"}
    hosts = [str(Address(name, port)) for name in names]
    own = [f"http://{host}" for host in hosts]
    return TransportSecuritySettings(
        allowed_hosts=[*hosts, *options.hosts],
        allowed_origins=[*own, *(origin.rstrip("/") for origin in options.origins)],
    )
