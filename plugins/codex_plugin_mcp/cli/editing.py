"""``mcp add`` and ``mcp remove``: servers in the user's ``config.toml``."""

from __future__ import annotations

import shutil
from typing import Any

import click

from codex_framework import PluginContext
from codex_plugin_mcp.cli.accounts import registration_option
from codex_plugin_mcp.cli.configured import Configured, ServerName

__all__ = ["add_command", "remove_command"]


def _assignments(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of ``--env``."""
    found = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key.strip():
            fact = f"{value!r}: environment entries must be in KEY=VALUE form"
            raise click.BadParameter(fact, ctx=context, param=parameter)
        found[key.strip()] = text
    return found


class _AddCommand(click.Command):
    """A command whose second word starts a program: all words from there on belong to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, _with_separator(args))


def _with_separator(args: list[str]) -> list[str]:
    """Return arguments with ``--`` before the program. Every option takes a value, except for ``--help``."""
    position, words = 0, 0
    while position < len(args) and args[position] != "--":
        word = args[position]
        if word.startswith("-") and len(word) > 1:
            position += 1 if "=" in word or word in ("-h", "--help") else 2
            continue
        words += 1
        if words == 2:  # the first one is the name
            return [*args[:position], "--", *args[position:]]
        position += 1
    return args


def add_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp add``."""

    @click.command("add", cls=_AddCommand, short_help="Add a server to your config.toml.")
    @click.argument("name")
    @click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="(--url URL | -- COMMAND...)")
    @click.option(
        "--env",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_assignments,
        help="A variable for the program. Can be repeated.",
    )
    @click.option("--url", metavar="URL", help="The URL of a server that is reached over HTTP.")
    @click.option("--bearer-token-env-var", metavar="NAME", help="The variable that contains the server's token.")
    @click.option("--sandbox", metavar="PROFILE", help="The permission profile that confines the program.")
    @click.option("--oauth-client-id", metavar="ID", help="The OAuth client that is registered with the server.")
    @click.option("--oauth-client-secret", metavar="SECRET", help="Its secret.")
    @click.option("--oauth-resource", metavar="RESOURCE", help="The OAuth resource parameter.")
    @registration_option
    def command(name: str, words: tuple[str, ...], *, oauth_client_registration: str, **options: Any) -> None:
        """Add a server to your config.toml, or replace the server of this name.

        All words after the program are its arguments. For example:

        \b
          codex-framework mcp add time -- uvx mcp-server-time
          codex-framework mcp add docs --url https://example.com/mcp
        """  # noqa: D301  # a mark for click
        if words and oauth_client_registration != "auto":
            raise click.UsageError("--oauth-client-registration needs --url.")
        table = _table(words, **options)
        _add(plugin, name, table, registration=oauth_client_registration)

    return command


def _table(words: tuple[str, ...], *, url: str | None, sandbox: str | None, **options: Any) -> dict[str, Any]:
    """Return the table of a new server.

    Raises:
        click.UsageError: The options do not belong together.
    """
    if bool(words) == (url is not None):
        raise click.UsageError(
            "--url cannot be used with a command." if words else "Either a command or --url is required: -- COMMAND..."
        )
    env = options.pop("env")
    if words:
        foreign = next((name for name, value in options.items() if value is not None), None)
        if foreign is not None:
            raise click.UsageError(f"--{foreign.replace('_', '-')} needs --url.")
        return _present(command=words[0], args=list(words[1:]), env=env, sandbox=sandbox)
    if env or sandbox is not None:
        raise click.UsageError(f"{'--env' if env else '--sandbox'} needs a command.")
    oauth = _present(client_id=options["oauth_client_id"], client_secret=options["oauth_client_secret"])
    others = {name: options[name] for name in ("bearer_token_env_var", "oauth_resource")}
    return _present(url=url, **others, oauth=oauth)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def _add(plugin: PluginContext, name: str, table: dict[str, Any], *, registration: str) -> None:
    from codex_plugin_mcp.cli.accounts import after_adding
    from codex_plugin_mcp.edits import add_server, own_server
    from codex_plugin_mcp.servers import read_server

    before = own_server(plugin.codex_home, name)
    configured = Configured(plugin)
    add_server(plugin.codex_home, name, table)
    click.echo(f"Added global MCP server '{name}'.")
    if before is not None and before != table:
        click.echo("note: it replaces the earlier settings of this server", err=True)
    if before is None and name in configured.names():
        place = configured.place(name)
        click.echo(f"warning: {place} defines a server of this name, too, and its settings override yours", err=True)
    if "command" in table and shutil.which(table["command"], path=plugin.environ.get("PATH")) is None:
        click.echo(f"warning: there is no program {table['command']!r}; install it before you use the server", err=True)
    after_adding(plugin, read_server(name, table, plugin.config), registration=registration)


def remove_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp remove``."""

    @click.command("remove", short_help="Remove a server from your config.toml.")
    @click.argument("name", type=ServerName(plugin))
    def command(name: str) -> None:
        """Remove a server from your config.toml, with all its settings."""
        from codex_plugin_mcp.edits import elsewhere, remove_server

        configured = Configured(plugin)
        if remove_server(plugin.codex_home, name):
            click.echo(f"Removed global MCP server '{name}'.")
        elif name in configured.names():
            raise elsewhere(plugin.codex_home, name, "Remove it there.", configured.place(name))
        else:
            click.echo(f"No MCP server named '{name}' found.")

    return command
