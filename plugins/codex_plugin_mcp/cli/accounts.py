"""``mcp login`` and ``mcp logout``, and how servers authenticate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from codex_framework import PluginContext
from codex_lib_model_client.browsers import open_in_browser
from codex_plugin_mcp.cli.configured import Configured, ServerName
from codex_plugin_mcp.cli.text import paragraph
from codex_plugin_mcp.servers import ServerConfig

__all__ = ["after_adding", "auth_statuses", "login_command", "logout_command", "registration_option"]


registration_option = click.option(
    "--oauth-client-registration",
    type=click.Choice(["auto", "cimd", "dcr"], case_sensitive=False),
    default="auto",
    help="How the client becomes known to the authorization server at this login: by the document that oauth.client_id names"
    " (cimd), by registering itself (dcr), or as the server allows (auto).",
)


def login_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp login``."""

    @click.command("login", short_help="Log in to a server with OAuth.")
    @click.argument("name", type=ServerName(plugin))
    @click.option(
        "--scopes",
        metavar="SCOPE,SCOPE",
        help="The scopes to request. The default is the server's `scopes` setting, else the scopes that the server names.",
    )
    @click.option("--no-browser", is_flag=True, help="Only show the address, and open no browser.")
    @registration_option
    def command(name: str, scopes: str | None, *, no_browser: bool, oauth_client_registration: str) -> None:
        """Log in to a server that is reached over HTTP, in your browser.

        The tokens are stored as `mcp_oauth_credentials_store` says. Sessions use and refresh them.
        """
        from codex_plugin_mcp.oauth.flow import login

        server = Configured(plugin).server(name)
        given = None if scopes is None else tuple(filter(None, scopes.replace(",", " ").split()))
        asyncio.run(
            login(
                server,
                codex_home=plugin.codex_home,
                config=plugin.config,
                open_browser=lambda address: not no_browser and open_in_browser(address, plugin.environ),
                echo=lambda text: click.echo(paragraph(text)),
                scopes=given,
                registration=oauth_client_registration,
                environ=plugin.environ,
            )
        )
        click.echo(f"Successfully logged in to MCP server '{name}'.")

    return command


def logout_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp logout``."""

    @click.command("logout", short_help="Delete the login at a server.")
    @click.argument("name", type=ServerName(plugin))
    def command(name: str) -> None:
        """Delete the tokens of a server from the file and the keyring."""
        from codex_plugin_mcp.oauth.flow import logout

        server = Configured(plugin).server(name)
        found = asyncio.run(logout(server, codex_home=plugin.codex_home, config=plugin.config))
        click.echo(
            f"Removed OAuth credentials for '{name}'." if found else f"No OAuth credentials stored for '{name}'."
        )

    return command


def auth_statuses(plugin: PluginContext, servers: Sequence[ServerConfig]) -> dict[str, str]:
    """Return how each server authenticates, by its name. Servers over HTTP without a login are asked, all at the same time."""
    known = {server.name: _known_status(server) for server in servers}
    asked = [server for server in servers if known[server.name] is None]
    if asked:
        found = asyncio.run(_asked_statuses(plugin, asked))
        known.update({server.name: status for server, status in zip(asked, found, strict=True)})
    return {name: status or "unknown" for name, status in known.items()}


async def _asked_statuses(plugin: PluginContext, servers: Sequence[ServerConfig]) -> list[str]:
    return list(await asyncio.gather(*(_asked_status(plugin, server) for server in servers)))


async def _asked_status(plugin: PluginContext, server: ServerConfig) -> str:
    from codex_plugin_mcp.oauth.errors import LoginFailed
    from codex_plugin_mcp.oauth.flow import auth_status

    try:
        return await auth_status(server, codex_home=plugin.codex_home, config=plugin.config, environ=plugin.environ)
    except LoginFailed as error:
        click.echo(f"warning: {paragraph(str(error))}", err=True)
        return "unknown"


def _known_status(server: ServerConfig) -> str | None:
    """Return the status as far as the settings say it."""
    if server.is_stdio or not server.enabled:
        return "unsupported"
    headers = {name.lower() for name in (*server.http_headers, *server.env_http_headers)}
    return "bearer_token" if server.bearer_token_env_var or "authorization" in headers else None


def after_adding(plugin: PluginContext, server: ServerConfig, *, registration: str) -> None:
    """Say what to do if the server requires a login.

    Args:
        registration: How the client is to become known at the login.
    """
    if auth_statuses(plugin, [server])[server.name] == "not_logged_in":
        option = "" if registration == "auto" else f" --oauth-client-registration {registration}"
        click.echo(f"The server requires a login. Run `codex-framework mcp login {server.name}{option}`.")
