"""The users of the app: users of the team or, without authentication, the user of this machine who started it."""

from __future__ import annotations

import inspect
import ipaddress
import os
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request

from codex_contrib_web.errors import WebError
from codex_framework.toolkit.local_clients import connection_owner, is_local_name

__all__ = ["Authenticate", "find_owner"]

Authenticate: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Returns the name of the user who sends a request, or None if there is no such user. May raise ``HTTPException``."""

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
_LONGEST_NAME = 200


async def find_owner(request: Request, authenticate: Authenticate | None, origins: Collection[str]) -> str:
    """Return the user of a request. Empty without authentication.

    Raises:
        WebError: The request may come from another user, or from a page of another site.
    """
    origin = request.headers.get("origin")
    if authenticate is None:
        if (reason := _refusal(request, origin)) is not None:
            hint = "Pass `authenticate=` to AgentApp if others than you are to use it."
            raise WebError(reason, slug="forbidden", hint=hint)
        return ""
    if origin is not None and origin not in origins and urlsplit(origin).netloc != request.headers.get("host"):
        hint = "Add the origin to `origins=` of AgentApp."
        raise WebError(f"pages of {origin!r} may not use this service", slug="forbidden", hint=hint)
    found = authenticate(request)
    owner = await found if inspect.isawaitable(found) else found
    if owner is None:
        raise WebError("the request names no user", slug="unauthenticated", hint="Send your credentials.")
    if not isinstance(owner, str) or not owner or len(owner) > _LONGEST_NAME:
        raise TypeError(f"authenticate() must return a name of 1 to {_LONGEST_NAME} characters, or None, not {owner!r}")
    return owner


def _refusal(request: Request, origin: str | None) -> str | None:
    """Return why a request without authentication is refused, or None if its sender is the user who started the server."""
    if origin is not None:
        return "without authentication, no page may use this service"
    if any(name in request.headers for name in _FORWARDED):
        return "without authentication, requests may not come through a proxy"
    if request.client is None:  # a unix socket, whose permissions say who may connect
        return None
    if not _is_loopback(request.client.host):
        return "without authentication, only programs of this machine may use this service"
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not is_local_name(hosts[0]):
        return "the header Host does not name this machine"
    server = request.scope.get("server")
    if server is not None and server[1] is not None:
        owner = connection_owner(server, (request.client.host, request.client.port))
        if owner is not None and owner not in (os.getuid(), 0):
            return "another user of this machine has started this server"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
