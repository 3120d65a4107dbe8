"""``codex-framework mcp-server``: its options, and the checks before it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from codex_framework.contract.errors import CodexError, ConfigError
from codex_framework.toolkit.installing import install_command
from codex_plugin_mcp_server.options import Address, Options

__all__ = ["mcp_server"]

_ALL_TOOLS = "*"


@click.command("mcp-server")
@click.option("--http", "address", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead of stdio.")
@click.option(
    "--bearer-token-env-var", "token_var", metavar="NAME", help="Require the token in this variable from HTTP clients."
)
@click.option(
    "--allow-host", "hosts", metavar="NAME", multiple=True, help="Accept HTTP requests for this host name, too."
)
@click.option(
    "--allow-origin", "origins", metavar="URL", multiple=True, help="Accept HTTP requests of web pages of this origin."
)
@click.option(
    "--allow-unauthenticated",
    is_flag=True,
    help="Serve an address that other machines can reach without a token. Everyone who can reach it can run commands.",
)
@click.option(
    "--expose-tools",
    "tools",
    metavar="[NAME,...]",
    is_flag=False,
    flag_value=_ALL_TOOLS,
    help="Offer tools of plugins, too: these (patterns and names of plugins work), or all.",
)
@click.option("--tools-only", is_flag=True, help="Offer only the tools of plugins, and neither codex nor codex-reply.")
@click.option(
    "-c",
    "--config",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key of the configuration for every thread. The value is parsed as TOML or, if that fails, used as a string.",
)
@click.pass_context
def mcp_server(context: click.Context, /, **given: Any) -> None:
    """Serve the agent to MCP clients, over stdio or HTTP.

    The tools codex and codex-reply run turns. Approvals reach the client as elicitations.
    """
    _check_installed()
    options = _options(plugin_files=context.find_object(tuple) or (), **given)
    from codex_plugin_mcp_server.serving import serve

    context.exit(serve(options, context.obj))


def _check_installed() -> None:
    """Check for the SDK without importing it.

    Raises:
        CodexError: It is missing, or too old.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("mcp")
    except PackageNotFoundError:
        fact = "the MCP server needs the MCP SDK, which is not installed"
    else:
        if found.partition(".")[0].isdigit() and int(found.partition(".")[0]) >= 2:
            return
        fact = f"the MCP server needs the MCP SDK from version 2, and {found} is installed"
    raise CodexError(fact, slug="missing-extra", hint=f"Install it: {install_command('codex-framework[mcp]')}")


def _options(
    *,
    address: str | None,
    token_var: str | None,
    hosts: Iterable[str],
    origins: Iterable[str],
    allow_unauthenticated: bool,
    tools: str | None,
    tools_only: bool,
    settings: Iterable[str],
    plugin_files: Iterable[object],
) -> Options:
    """Return the checked options.

    Raises:
        ConfigError: They contradict each other, or a value is invalid.
    """
    patterns = () if tools is None else tuple(filter(None, (name.strip() for name in tools.split(","))))
    if tools_only and not patterns:
        patterns = (_ALL_TOOLS,)
    for flag, is_given in (
        ("--bearer-token-env-var", token_var),
        ("--allow-host", tuple(hosts)),
        ("--allow-origin", tuple(origins)),
        ("--allow-unauthenticated", allow_unauthenticated),
    ):
        if is_given and address is None:
            raise ConfigError(f"{flag} is for HTTP", path=flag, slug="serve-mcp", hint="Add --http HOST:PORT.")
    bound = None if address is None else Address.read(address)
    token = None if token_var is None else _token(token_var)
    if bound is not None and token is None and not bound.is_loopback and not allow_unauthenticated:
        raise ConfigError(
            f"{bound} can be reached from other machines, and everyone who can reach it could run commands here",
            path="--http",
            slug="serve-mcp",
            hint="Require a token with --bearer-token-env-var NAME, or listen on 127.0.0.1.",
        )
    return Options(
        address=bound,
        token=token,
        token_var=token_var,
        hosts=tuple(hosts),
        origins=tuple(origins),
        tools=patterns,
        agent=not tools_only,
        config=_read_settings(settings),
        plugin_files=tuple(path for path in plugin_files if isinstance(path, Path)),
    )


def _token(name: str) -> str:
    token = os.environ.get(name, "")
    if len(token) < 16 or not token.isascii() or any(letter.isspace() for letter in token):
        state = "is not set" if not token else "contains no usable token"
        raise ConfigError(
            f"the variable {name} {state}",
            path="--bearer-token-env-var",
            slug="serve-mcp",
            hint="Set it to at least 16 random ASCII characters: `openssl rand -hex 32` makes some.",
        )
    return token


def _read_settings(settings: Iterable[str]) -> Mapping[str, Any]:
    import tomllib

    table: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"{setting!r} is no setting", path="-c", slug="serve-mcp", hint="Write it as -c KEY=VALUE."
            )
        try:
            table[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            table[key.strip()] = text.strip()
    return table
