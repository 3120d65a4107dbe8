"""Shared HTTP code of both transports and OAuth: a client, the configured headers, redirects, and texts of errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from codex_framework.contract.urls import shown_url
from codex_lib_model_client.https import httpx_module, loading_failure, tls_context
from codex_plugin_mcp.errors import ConnectionFailed

if TYPE_CHECKING:
    import ssl

    import httpx

    from codex_plugin_mcp.servers import ServerConfig

__all__ = [
    "CONNECT_S",
    "configured_headers",
    "first_bytes",
    "has_own_authorization",
    "is_internal",
    "is_loopback",
    "new_client",
    "origin",
    "send_within_origin",
    "unreachable",
]

CONNECT_S = 15.0
"""How long a connection may take, in seconds."""

_WRITE_S = 60.0
_MAX_REDIRECTS = 5
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LOOPBACK = re.compile(r"localhost|.+\.localhost|127(\.\d{1,3}){3}|\[?::1\]?")


async def new_client(*, read_s: float | None = None) -> httpx.AsyncClient:
    """Return a client that follows no redirects and uses the trust settings of the environment."""
    try:
        context = await asyncio.to_thread(_tls_context)
    except (OSError, ValueError) as error:
        raise ConnectionFailed(
            loading_failure(error),
            hint="Fix CODEX_CA_CERTIFICATE, SSL_CERT_FILE and SSL_CERT_DIR, or remove them from the environment.",
        ) from error
    module = httpx_module()
    try:
        client: httpx.AsyncClient = module.AsyncClient(
            verify=context,
            timeout=module.Timeout(connect=CONNECT_S, read=read_s, write=_WRITE_S, pool=None),
            follow_redirects=False,
            limits=module.Limits(max_connections=None, keepalive_expiry=30),
        )
    except (module.InvalidURL, ValueError, ImportError) as error:
        raise ConnectionFailed(
            "the proxy in the environment cannot be used",
            hint="Fix HTTP_PROXY, HTTPS_PROXY and ALL_PROXY. SOCKS proxies require the package socksio.",
        ) from error
    return client


def _tls_context() -> ssl.SSLContext:
    """Return the TLS context of this environment. Imports httpx too: both take some 30 ms."""
    httpx_module()
    return tls_context()


def configured_headers(server: ServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a server's table configures, with names in lower case.

    Raises:
        ConnectionFailed: The variable of the bearer token is missing or empty, or a header is not valid. The text never
            contains a value.
    """
    headers = {name.lower(): value for name, value in server.http_headers.items()}
    for name, source in server.env_http_headers.items():
        if value := environ.get(source, "").strip():
            headers[name.lower()] = value
    if variable := server.bearer_token_env_var:
        headers["authorization"] = f"Bearer {_bearer_token(server.name, variable, environ)}"
    for name, value in headers.items():
        _check_header(name, value)
    return headers


def _bearer_token(name: str, variable: str, environ: Mapping[str, str]) -> str:
    token = environ.get(variable)
    if token is None or not token.strip():
        state = "not set" if token is None else "empty"
        raise ConnectionFailed(
            f"Environment variable {variable} for MCP server '{name}' is {state}",
            hint=f"Set {variable} to the server's bearer token, or remove bearer_token_env_var.",
        )
    return token.strip()


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ConnectionFailed(f"{name[:80]!r} is not a valid name of an HTTP header", hint="Fix http_headers.")
    if not value.isprintable() or not value.isascii():
        raise ConnectionFailed(
            f"the value of the HTTP header {name!r} has characters that a header cannot contain",
            hint="Fix http_headers, or the variable that env_http_headers or bearer_token_env_var names.",
        )


def has_own_authorization(server: ServerConfig) -> bool:
    """Whether the configuration itself says how to authorize, so that OAuth is not used."""
    named = (*server.http_headers, *server.env_http_headers)
    return bool(server.bearer_token_env_var) or any(name.lower() == "authorization" for name in named)


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL. The default port of a scheme is None."""
    port = None if url.port == {"http": 80, "https": 443}.get(url.scheme) else url.port
    return url.scheme, url.host, port


def is_loopback(url: httpx.URL) -> bool:
    """Whether a URL's host is this machine."""
    return _LOOPBACK.fullmatch(url.host) is not None


def is_internal(host: str) -> bool:
    """Whether a host is written as an address of this machine or of a private network, in any notation. Names are not looked up."""
    import ipaddress
    import socket

    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        found: ipaddress.IPv4Address | ipaddress.IPv6Address
        found = ipaddress.IPv6Address(name) if ":" in name else ipaddress.IPv4Address(socket.inet_aton(name))
    except (ValueError, OSError):
        return False
    return not (getattr(found, "ipv4_mapped", None) or found).is_global


async def send_within_origin(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    on_sent: Callable[[], None] | None = None,
) -> httpx.Response:
    """Send a request and return the response, whose body is not read yet.

    A redirect is followed if it keeps the method and stays on the origin, or goes from ``http`` to ``https`` on the same host.
    All others are refused, because the headers and the body are meant for this server only.

    Args:
        on_sent: Called when the request has left.

    Raises:
        ConnectionFailed: The server cannot be reached, or a redirect was refused.
    """
    httpx = httpx_module()

    async def trace(event: str, _: Any) -> None:
        if on_sent is not None and event.endswith("send_request_body.complete"):
            on_sent()

    extensions = {} if on_sent is None else {"trace": trace}
    try:
        target = httpx.URL(url)
        for _ in range(_MAX_REDIRECTS + 1):
            request = client.build_request(method, target, headers=dict(headers), content=body, extensions=extensions)
            response = await client.send(request, stream=True)
            if not response.has_redirect_location:
                return response
            target = await _redirect_target(response, method)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ValueError) as error:
        raise unreachable(url, error) from error
    raise ConnectionFailed(f"{shown_url(url)} redirects in a circle", kind="protocol")


async def _redirect_target(response: httpx.Response, method: str) -> httpx.URL:
    """Return the target of a redirect, if it may be followed."""
    await response.aclose()
    here = response.request.url
    there = here.join(response.headers["location"])
    kept = response.status_code in (307, 308) or method == "GET"
    upgraded = origin(here)[:2] == ("http", there.host) and origin(here)[2] is None and origin(there)[0] == "https"
    if kept and not there.userinfo and (origin(here) == origin(there) or (upgraded and origin(there)[2] is None)):
        return there
    raise ConnectionFailed(
        f"{shown_url(str(here))} redirects to {shown_url(str(there))}, which is not followed",
        kind="refused",
        hint="If that is the server you mean, put its URL into the server's table.",
    )


def unreachable(url: str, error: Exception) -> ConnectionFailed:
    """Return the error for a request that got no answer."""
    httpx = httpx_module()
    if isinstance(error, httpx.TimeoutException):
        return ConnectionFailed(f"{shown_url(url)} did not answer in time", kind="timeout")
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError):
        return ConnectionFailed(f"{shown_url(url)} cannot be reached: {reason}", kind="missing")
    return ConnectionFailed(f"the connection to {shown_url(url)} failed: {reason}", kind="ended")


async def first_bytes(response: httpx.Response, limit: int) -> bytes | None:
    """Read the body of a response and close it. Return None if it is larger than ``limit`` bytes.

    Raises:
        ConnectionFailed: The connection was cut.
    """
    httpx = httpx_module()
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > limit:
                return None
            pieces.append(piece)
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        raise unreachable(str(response.request.url), error) from error
    finally:
        await response.aclose()
    return b"".join(pieces)
