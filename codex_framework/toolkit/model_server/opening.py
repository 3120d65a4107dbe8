"""The way to a model server: directly or through a proxy, with or without TLS, as the environment says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework.toolkit.model_server.http_transport import HttpTransport
from codex_framework.toolkit.model_server.proxies import proxy_for

if TYPE_CHECKING:
    from codex_framework.toolkit.model_server.transport import Transport

__all__ = ["open_transport"]


def open_transport(url: str, env: Mapping[str, str]) -> Transport:
    """Return a transport for this URL. Certificates are loaded in the background from now on, if any are needed.

    Raises:
        ModelError: A variable names no usable proxy.
    """
    proxy = proxy_for(url, env)
    certificates = None
    if url.startswith("https:") or (proxy is not None and proxy.scheme == "https"):
        from codex_framework.toolkit.model_server.certificates import Certificates

        certificates = Certificates(env)
    return HttpTransport(url, proxy, certificates)
