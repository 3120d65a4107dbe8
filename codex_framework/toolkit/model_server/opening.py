"""The choice of a transport: the only module that knows which HTTP implementations there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_framework.toolkit.model_server.transport import Transport

__all__ = ["open_transport"]

_PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def open_transport(url: str, env: Mapping[str, str]) -> Transport:
    """Return a transport for this URL: without httpx for plain HTTP without a proxy, because its import takes long."""
    if url.startswith("http:") and not any(env.get(name) for name in _PROXY_VARIABLES):
        from codex_framework.toolkit.model_server.plain_transport import PlainTransport

        return PlainTransport()
    from codex_framework.toolkit.model_server.httpx_transport import HttpxTransport

    return HttpxTransport(secure=url.startswith("https:"))
