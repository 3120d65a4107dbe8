"""Parsing of requests to an HTTP proxy, and selection of the headers to forward."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from codex_framework.contract.value import Value
from codex_plugin_network_proxy.hosts import BadHostError, host_text, split_authority

if TYPE_CHECKING:
    from h11 import Request, Response

__all__ = ["BadRequestError", "ProxyRequest", "read_request", "response_headers", "trailers"]

Headers = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset({
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"te",
    b"upgrade",
    b"http2-settings",
})  # fmt: skip
"""Hop-by-hop headers (RFC 9110, 7.6.1).

``transfer-encoding`` is not listed, because the body is encoded again when it is forwarded.
"""

_FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""Headers that are forwarded even if ``connection`` lists them.

Without them, the other side would see a different end of the body.
"""

_SOCKET = b"x-unix-socket"

_ADVICE = "This is a proxy: it takes `GET http://HOST/PATH` and `CONNECT HOST:PORT`."


class BadRequestError(Exception):
    """The request cannot be forwarded.

    Attributes:
        text: The reason.
        status: The matching HTTP status.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class ProxyRequest(Value, kw_only=True):
    """A request to the proxy.

    Attributes:
        method: The method, as sent.
        host, port: The target. For a unix socket they are ``"unix-socket"`` and 0.
        target: The request target to send to the host.
        headers: The headers to forward.
        tunnel: Whether this is a ``CONNECT``, which forwards bytes in both directions.
        socket: The path of the unix socket, or None if the target is a host.
        upgrade: The protocols requested with ``Upgrade``. None if no upgrade is requested.
        has_body: Whether a body follows the head.
    """

    method: str
    host: str
    port: int
    target: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    tunnel: bool = False
    socket: str | None = None
    upgrade: bytes | None = None
    has_body: bool = False


def read_request(request: Request) -> ProxyRequest:
    """Parse the head of a request.

    Raises:
        BadRequestError: The request cannot be forwarded.
    """
    if request.http_version not in (b"1.0", b"1.1"):
        raise BadRequestError("This proxy supports only HTTP/1.1.", 505)
    headers = [(bytes(name), bytes(value)) for name, value in request.headers.raw_items()]
    lengths = _values(headers, b"content-length")
    codings = _values(headers, b"transfer-encoding")
    if codings and (lengths or request.http_version < b"1.1"):
        raise BadRequestError("The end of the request is ambiguous (Content-Length, Transfer-Encoding).")
    has_body = bool(codings) or any(int(length) for length in lengths)
    method, target = request.method.decode("ascii"), request.target.decode("ascii")
    if method == "CONNECT":
        return _tunnel(target, has_body=has_body)
    upgrade = _upgrade(request, headers)
    forwarded = _forwarded_headers(headers, _words(_values(headers, b"connection")))
    sockets = _values(headers, _SOCKET)
    if sockets:
        path = _socket_path(sockets)
        return ProxyRequest(
            method=method, host="unix-socket", port=0, target=_local_target(target), headers=tuple(forwarded), socket=path,
            upgrade=upgrade, has_body=has_body,
        )  # fmt: skip
    host, port, rest = _absolute(method, target)
    return ProxyRequest(
        method=method, host=host, port=port, target=rest, headers=tuple(_with_host(forwarded, host, port)), upgrade=upgrade,
        has_body=has_body,
    )  # fmt: skip


def response_headers(response: Response) -> Headers:
    """Return the headers of a response to forward to the client."""
    headers = [(bytes(name), bytes(value)) for name, value in response.headers.raw_items()]
    dropped = (_words(_values(headers, b"connection")) - _FRAMING) | {b"transfer-encoding"}
    if _values(headers, b"transfer-encoding"):
        dropped |= {
            b"content-length"
        }  # overridden by transfer-encoding (RFC 9112, 6.3), and wrong once that is removed
    return [(name, value) for name, value in headers if (low := name.lower()) not in _HOP_BY_HOP and low not in dropped]


def trailers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the trailer fields to forward."""
    return [
        (bytes(name), bytes(value))
        for name, value in headers
        if name.lower() not in _HOP_BY_HOP and name.lower() not in _FRAMING
    ]


def _tunnel(target: str, *, has_body: bool) -> ProxyRequest:
    if has_body:
        raise BadRequestError("A CONNECT request cannot have a body.")
    try:
        host, port = split_authority(target)
    except BadHostError as error:
        raise BadRequestError(f"CONNECT needs HOST:PORT: {error}.") from None
    return ProxyRequest(method="CONNECT", host=host, port=port, tunnel=True)


def _absolute(method: str, target: str) -> tuple[str, int, str]:
    """Split ``http://HOST:PORT/PATH`` into host, port and request target."""
    scheme, separator, rest = target.partition("://")
    if not separator or not scheme.isalpha():
        raise BadRequestError(f"{method} {target[:80]} names no host. {_ADVICE}")
    if scheme.lower() not in ("http", "ws"):
        raise BadRequestError(f"{scheme}:// is not supported in a request. {_ADVICE}")
    end = min((place for place in map(rest.find, "/?#") if place >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:].partition("#")[0]
    if "@" in authority:
        raise BadRequestError("The URL contains a user name. Send it in the header Authorization.")
    try:
        host, port = split_authority(authority, 80)
    except BadHostError as error:
        raise BadRequestError(f"The URL has no valid host: {error}. {_ADVICE}") from None
    if not path:
        path = "*" if method == "OPTIONS" else "/"
    return host, port, "/" + path if path.startswith("?") else path


def _local_target(target: str) -> str:
    """Return the request target for a unix socket. The host of a URL is removed."""
    if target.startswith("/") or target == "*":
        return target
    return _absolute("GET", target)[2]


def _socket_path(values: list[bytes]) -> str:
    if len(values) > 1:
        raise BadRequestError("The request names more than one unix socket.")
    try:
        return values[0].decode()
    except UnicodeDecodeError:
        raise BadRequestError("The path of the unix socket is not UTF-8.") from None


def _with_host(headers: Headers, host: str, port: int) -> Headers:
    """Return the headers with a ``Host`` that matches the URL.

    Raises:
        BadRequestError: The ``Host`` header is invalid or names another host. A server could take the request for one to that host.
    """
    given = _values(headers, b"host")
    if not given:
        return [(b"Host", host_text(host, None if port == 80 else port).encode()), *headers]
    try:
        same = split_authority(given[0].decode("latin-1"), 80) == (host, port)
    except BadHostError as error:
        raise BadRequestError(f"The header Host is invalid: {error}.") from None
    if not same:
        raise BadRequestError("The header Host and the URL name different hosts.")
    return headers


def _upgrade(request: Request, headers: Headers) -> bytes | None:
    values = _values(headers, b"upgrade")
    if values and request.http_version >= b"1.1" and b"upgrade" in _words(_values(headers, b"connection")):
        return b", ".join(values)
    return None


def _forwarded_headers(headers: Headers, connection: frozenset[bytes]) -> Headers:
    dropped = (_HOP_BY_HOP | connection) - _FRAMING | {_SOCKET}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _values(headers: Headers, key: bytes) -> list[bytes]:
    return [value for name, value in headers if name.lower() == key]


def _words(values: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(_split(values))


def _split(values: Iterable[bytes]) -> Iterator[bytes]:
    for value in values:
        for word in value.split(b","):
            yield word.strip().lower()
