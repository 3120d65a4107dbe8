"""The way to a model server: directly or through a proxy, with or without TLS, as the environment says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_lib_model_client.dialing import Dialer
from codex_lib_model_client.http_transport import HttpTransport
from codex_lib_model_client.proxies import proxy_for

if TYPE_CHECKING:
    from codex_lib_model_client.transport import Transport

__all__ = ["open_dialer", "open_transport"]

_PROXIED = {"ws": "http", "wss": "https"}
"""The scheme whose proxy applies."""


def open_transport(url: str, env: Mapping[str, str], provider: str | None = None) -> Transport:
    """Return a transport for this URL. Certificates are loaded in the background from now on, if any are needed.

    Args:
        provider: The model provider whose server this is, if it is one.

    Raises:
        ModelError: A variable names no usable proxy.
    """
    return HttpTransport(open_dialer(url, env, provider))


def open_dialer(url: str, env: Mapping[str, str], provider: str | None = None) -> Dialer:
    """Return what opens connections to the server of this URL, which may also have the scheme ``ws`` or ``wss``.

    Args:
        provider: As for :func:`open_transport`.

    Raises:
        ModelError: A variable names no usable proxy.
    """
    scheme, separator, rest = url.partition("://")
    proxy = proxy_for(f"{_PROXIED.get(scheme, scheme)}{separator}{rest}", env)
    certificates = None
    if scheme in ("https", "wss") or (proxy is not None and proxy.scheme == "https"):
        from codex_lib_model_client.certificates import Certificates

        certificates = Certificates(env, provider)
    return Dialer(url, proxy, certificates)
