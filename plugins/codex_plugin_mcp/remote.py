"""The transport of a server that is reached over HTTP, with its authorization."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_plugin_mcp.transports.http import HttpTransport
from codex_plugin_mcp.transports.http_client import has_own_authorization
from codex_plugin_mcp.transports.transport import Fault

if TYPE_CHECKING:
    from codex_plugin_mcp.servers import ServerConfig

__all__ = ["remote_transport"]


def remote_transport(
    server: ServerConfig,
    *,
    codex_home: Path | None,
    config: Mapping[str, Any],
    on_fault: Fault = lambda _: None,
    environ: Mapping[str, str] | None = None,
) -> HttpTransport:
    """Return a transport, not yet started.

    Args:
        server: The server, which has a ``url``.
        codex_home: The folder with the tokens of logins. Without it, logins are not used.
        config: The merged configuration.
        on_fault: Called with a sentence about skipped data.
        environ: The environment variables for headers and secrets. By default, the process's environment.
    """
    if codex_home is None or has_own_authorization(server):
        return HttpTransport(server, on_fault=on_fault, environ=environ)
    from codex_plugin_mcp.oauth.tokens import OAuthAuth

    authorization = OAuthAuth(server, codex_home=codex_home, config=config, environ=environ)
    return HttpTransport(server, on_fault=on_fault, authorization=authorization, environ=environ)
