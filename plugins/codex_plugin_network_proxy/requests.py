"""Requests to an HTTP proxy: what they want, and what of them goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from codex_framework.value import Value
from codex_plugin_network_proxy.hosts import BadHostError, split_authority, written

if TYPE_CHECKING:
    from h11 import Request, Response

__all__ = ["BadRequestError", "Wanted", "answer_headers", "read_request", "trailers"]

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
"""What concerns two ends of one connection (RFC 9110, 7.6.1). ``transfer-encoding`` is written anew as the body goes on."""

_FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding"})
"""What ``connection`` cannot take out of a request: its body would be read differently on the other side."""

_SOCKET = b"x-unix-socket"

_ADVICE = "This is a proxy: it takes `GET http://HOST/PATH` and `CONNECT HOST:PORT`."


class BadRequestError(Exception):
    """The request is not one that a proxy can carry.

    Attributes:
        text: Why.
        status: The HTTP status that says so.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class Wanted(Value, kw_only=True):
    """What a request wants.

    Attributes:
        method: As it was sent.
        host, port: Where to; of a unix socket ``"unix-socket"`` and 0.
        target: What to ask for there.
        headers: Those that go on.
        tunnel: Bytes both ways, not a request (``CONNECT``).
        socket: The unix socket to ask by.
        upgrade: The protocols it would like to change to.
        has_body: Whether anything follows the head.
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


def read_request(request: Request) -> Wanted:
    """What a request wants.

    Raises:
        BadRequestError: It cannot be carried.
    """
    if request.http_version not in (b"1.0", b"1.1"):
        raise BadRequestError("This proxy speaks HTTP/1.1.", 505)
    headers = [(bytes(name), bytes(value)) for name, value in request.headers.raw_items()]
    lengths = _values(headers, b"content-length")
    codings = _values(headers, b"transfer-encoding")
    if codings and (lengths or request.http_version < b"1.1"):
        raise BadRequestError("The request says in two ways where it ends (Content-Length, Transfer-Encoding).")
    has_body = bool(codings) or any(int(length) for length in lengths)
    method, target = request.method.decode("ascii"), request.target.decode("ascii")
    if method == "CONNECT":
        return _tunnel(target, has_body=has_body)
    upgrade = _upgrade(request, headers)
    kept = _kept(headers, _words(_values(headers, b"connection")))
    sockets = _values(headers, _SOCKET)
    if sockets:
        path = _socket_path(sockets)
        return Wanted(
            method=method, host="unix-socket", port=0, target=_local_target(target), headers=tuple(kept), socket=path,
            upgrade=upgrade, has_body=has_body,
        )  # fmt: skip
    host, port, rest = _absolute(method, target)
    return Wanted(
        method=method, host=host, port=port, target=rest, headers=tuple(_with_host(kept, host, port)), upgrade=upgrade,
        has_body=has_body,
    )  # fmt: skip


def answer_headers(response: Response) -> Headers:
    """The headers of an answer that go on to the client."""
    headers = [(bytes(name), bytes(value)) for name, value in response.headers.raw_items()]
    dropped = (_words(_values(headers, b"connection")) - _FRAMING) | {b"transfer-encoding"}
    if _values(headers, b"transfer-encoding"):
        dropped |= {
            b"content-length"
        }  # it does not count then (RFC 9112, 6.3), and must not after the coding is taken off
    return [(name, value) for name, value in headers if (low := name.lower()) not in _HOP_BY_HOP and low not in dropped]


def trailers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The fields behind a body that go on."""
    return [
        (bytes(name), bytes(value))
        for name, value in headers
        if name.lower() not in _HOP_BY_HOP and name.lower() not in _FRAMING
    ]


def _tunnel(target: str, *, has_body: bool) -> Wanted:
    if has_body:
        raise BadRequestError("A CONNECT has no body.")
    try:
        host, port = split_authority(target)
    except BadHostError as error:
        raise BadRequestError(f"CONNECT needs HOST:PORT: {error}.") from None
    return Wanted(method="CONNECT", host=host, port=port, tunnel=True)


def _absolute(method: str, target: str) -> tuple[str, int, str]:
    """Host, port and the rest of ``http://HOST:PORT/PATH``."""
    scheme, mark, rest = target.partition("://")
    if not mark or not scheme.isalpha():
        raise BadRequestError(f"{method} {target[:80]} names no host. {_ADVICE}")
    if scheme.lower() not in ("http", "ws"):
        raise BadRequestError(f"{scheme}:// is not carried as a request. {_ADVICE}")
    end = min((place for place in map(rest.find, "/?#") if place >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:].partition("#")[0]
    if "@" in authority:
        raise BadRequestError("The address has a user name in it. Send it in the header Authorization.")
    try:
        host, port = split_authority(authority, 80)
    except BadHostError as error:
        raise BadRequestError(f"The address names no host: {error}. {_ADVICE}") from None
    if not path:
        path = "*" if method == "OPTIONS" else "/"
    return host, port, "/" + path if path.startswith("?") else path


def _local_target(target: str) -> str:
    """What to ask for at a unix socket: the host of an address means nothing there."""
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
    """The headers with a ``Host`` that says the same as the address.

    Raises:
        BadRequestError: There is one that says something else: servers would take the request for another host's.
    """
    named = _values(headers, b"host")
    if not named:
        return [(b"Host", written(host, None if port == 80 else port).encode()), *headers]
    try:
        same = split_authority(named[0].decode("latin-1"), 80) == (host, port)
    except BadHostError as error:
        raise BadRequestError(f"The header Host cannot be read: {error}.") from None
    if not same:
        raise BadRequestError("The header Host names another host than the address.")
    return headers


def _upgrade(request: Request, headers: Headers) -> bytes | None:
    values = _values(headers, b"upgrade")
    if values and request.http_version >= b"1.1" and b"upgrade" in _words(_values(headers, b"connection")):
        return b", ".join(values)
    return None


def _kept(headers: Headers, connection: frozenset[bytes]) -> Headers:
    dropped = (_HOP_BY_HOP | connection) - _FRAMING | {_SOCKET}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name.lower() == wanted]


def _words(values: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(_split(values))


def _split(values: Iterable[bytes]) -> Iterator[bytes]:
    for value in values:
        for word in value.split(b","):
            yield word.strip().lower()
