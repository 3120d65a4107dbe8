"""The configured settings of the login at one server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from codex_framework.contract.value import Value, field
from codex_plugin_mcp.oauth.errors import LoginFailed

if TYPE_CHECKING:
    from codex_plugin_mcp.servers import ServerConfig

__all__ = ["Grant", "OAuthSettings", "oauth_settings"]

Grant = Literal["authorization_code", "client_credentials", "identity_assertion"]


class OAuthSettings(Value, kw_only=True):
    """The login at one server. ``repr`` does not show secrets.

    Attributes:
        issuer: The authorization server that the client is registered with. By default, the authorization server that the MCP
            server names.
        client_id: The id of a client that is registered already, or the URL of its metadata document. Without it, the
            client registers itself.
        client_secret: The client's secret, if it has one.
        scopes: The scopes to request. By default, the scopes that the server names.
        resource: The resource indicator. By default, the server names it.
        grant: How tokens are obtained: by a user with a browser, by the client itself, or with an identity token.
        private_key: The key that signs the client's assertions, as PEM, if it authenticates with them.
        signing_algorithm: The algorithm of these signatures.
        identity_token: The identity token of the user for ``identity_assertion``.
        identity_endpoint: The endpoint where the identity provider exchanges it.
        identity_client_id: The id of the client at the identity provider.
        callback_port: The port on which the answer of the browser is awaited; 0 means any.
        callback_url: The address that the browser is sent to. By default, this machine.
    """

    issuer: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    resource: str | None = None
    grant: Grant = "authorization_code"
    private_key: str | None = field(default=None, repr=False)
    signing_algorithm: str = "ES256"
    identity_token: str | None = field(default=None, repr=False)
    identity_endpoint: str | None = None
    identity_client_id: str | None = None
    callback_port: int = 0
    callback_url: str | None = None

    @property
    def has_client_document(self) -> bool:
        """Whether the client's id is the URL of a document that describes it."""
        if self.client_id is None:
            return False
        parts = urlsplit(self.client_id)
        return parts.scheme == "https" and parts.path not in ("", "/")


def oauth_settings(
    server: ServerConfig, config: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> OAuthSettings:
    """Read the settings.

    Args:
        config: The merged configuration, for the settings of all servers.
        environ: The environment variables. By default, the process's environment.

    Raises:
        LoginFailed: A named variable is not set.
    """
    environ = os.environ if environ is None else environ
    table = server.oauth
    port = table.get("callback_port", config.get("mcp_oauth_callback_port"))
    return OAuthSettings(
        issuer=table.get("issuer"),
        client_id=table.get("client_id"),
        client_secret=_secret(table, "client_secret", environ),
        scopes=server.scopes,
        resource=server.oauth_resource,
        grant=cast("Grant", table.get("grant", "authorization_code")),
        private_key=_secret(table, "private_key", environ),
        signing_algorithm=table.get("signing_algorithm", "ES256"),
        identity_token=_secret(table, "identity_token", environ),
        identity_endpoint=table.get("identity_endpoint"),
        identity_client_id=table.get("identity_client_id"),
        callback_port=port if isinstance(port, int) else 0,
        callback_url=table.get("callback_url", config.get("mcp_oauth_callback_url")),
    )


def _secret(table: Mapping[str, Any], name: str, environ: Mapping[str, str]) -> str | None:
    """Return a secret: the value of the variable that ``<name>_env_var`` names, or of ``<name>`` itself."""
    variable = table.get(f"{name}_env_var")
    if variable is None:
        return table.get(name)
    if value := environ.get(variable, "").strip():
        return value
    raise LoginFailed(
        f"the environment variable {variable}, which oauth.{name}_env_var names, is not set",
        hint=f"Set {variable}.",
    )
