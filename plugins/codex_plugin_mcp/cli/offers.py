"""``mcp prompts``, ``prompt``, ``resources`` and ``resource``: what servers offer besides tools."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codex_framework import CodexError, EventMsg, PluginContext, Request
from codex_framework.toolkit.tables import fit
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_mcp.cli.asking import answer, at_terminal
from codex_plugin_mcp.cli.configured import Configured, ServerName
from codex_plugin_mcp.cli.text import block_text, paragraph

if TYPE_CHECKING:
    from codex_plugin_mcp.connection import Connection
    from codex_plugin_mcp.session import Session

__all__ = ["prompt_command", "prompts_command", "resource_command", "resources_command"]

T = TypeVar("T")

_LISTS = {
    "prompts": {"prompts": "prompts/list"},
    "resources": {"resources": "resources/list", "resourceTemplates": "resources/templates/list"},
}
"""By capability: the keys of its lists, each with the method that returns the list."""


def prompts_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp prompts``."""
    return _list_command(
        plugin,
        "prompts",
        "Start a server, or all enabled ones, and list their prompts with their arguments.",
        _prompt_lines,
    )


def resources_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp resources``."""
    return _list_command(
        plugin,
        "resources",
        "Start a server, or all enabled ones, and list their resources and templates of resources.",
        _resource_lines,
    )


def _list_command(
    plugin: PluginContext, what: str, about: str, lines: Callable[[Mapping[str, Any]], Iterator[str]]
) -> click.Command:
    @click.command(
        what,
        short_help=f"Start servers, and list their {what}.",
        help=f"{about}\n\nThe exit status is 1 if a server did not start, or could not list them.",
    )
    @click.argument("name", type=ServerName(plugin), required=False)
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_context
    def command(context: click.Context, name: str | None, *, as_json: bool) -> None:
        configured = Configured(plugin)
        enabled = [each for each, server in sorted(configured.servers.items()) if server.enabled]
        names = enabled if name is None else [configured.usable(name).name]
        found = asyncio.run(_list_offers(plugin, names, what)) if names else []
        if as_json:
            click.echo(json.dumps(found, indent=2))
        else:
            shown = (fit("\n".join(_server_lines(server, what, lines)), "    ") for server in found)
            click.echo("\n\n".join(shown) or "No MCP server is enabled.")
        if name is None:
            configured.warn()
        failed = any(server["error"] for server in found) or (name is None and configured.errors)
        context.exit(1 if failed else 0)

    return command


def prompt_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp prompt``."""

    @click.command("prompt", short_help="Show a prompt of a server.")
    @click.argument("server", type=ServerName(plugin))
    @click.argument("name")
    @click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1, callback=_assignments)
    @click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
    def command(server: str, name: str, arguments: dict[str, str], *, as_json: bool) -> None:
        """Start a server, and print the messages of one of its prompts."""
        found = asyncio.run(
            _of_one(
                plugin,
                server,
                lambda session, limit_s: session.get_prompt(name, arguments, timeout_s=limit_s),
            )
        )
        if as_json:
            click.echo(json.dumps(found, indent=2))
            return
        for line in _message_lines(found):
            click.echo(line)

    return command


def resource_command(plugin: PluginContext) -> click.Command:
    """Return ``mcp resource``."""

    @click.command("resource", short_help="Read a resource of a server.")
    @click.argument("server", type=ServerName(plugin))
    @click.argument("uri")
    @click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
    def command(server: str, uri: str, *, as_json: bool) -> None:
        """Start a server, and print one of its resources.

        Texts are printed unchanged. Binary content is named with its size; --json prints it as Base64.
        """
        read = asyncio.run(
            _of_one(plugin, server, lambda session, limit_s: session.read_resource(uri, timeout_s=limit_s))
        )
        if as_json:
            click.echo(json.dumps(read, indent=2))
            return
        for part in _mappings(read.get("contents")):
            click.echo(block_text({"type": "resource", "resource": part}))

    return command


def _assignments(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{value!r} is not in the form KEY=VALUE", ctx=context, param=parameter)
        found[key] = text
    return found


# Asking servers


async def _list_offers(plugin: PluginContext, names: Sequence[str], what: str) -> list[dict[str, Any]]:
    async def of(connection: Connection) -> dict[str, Any]:
        server: dict[str, Any] = {"name": connection.name, "error": connection.error or None}
        lists: dict[str, Any] = {key: [] for key in _LISTS[what]}
        session = connection.session
        try:
            for key, method in _LISTS[what].items() if session is not None and session.offers(what) else ():
                lists[key] = await _whole(connection, method, key)
        except CodexError as error:
            server["error"] = str(error)
        return {**server, **lists}

    return await _run_with_servers(plugin, names, lambda connections: _gather(of(one) for one in connections))


async def _whole(connection: Connection, method: str, key: str) -> list[Mapping[str, Any]]:
    items, problem = await connection.ask(lambda session, limit_s: session.every(method, key, timeout_s=limit_s))
    if problem:
        click.echo(f"warning: MCP server {printable(connection.name)}: {paragraph(problem)}", err=True)
    return items


async def _gather(work: Any) -> list[Any]:
    return list(await asyncio.gather(*work))


async def _of_one(
    plugin: PluginContext, name: str, work: Callable[[Session, float], Awaitable[Mapping[str, Any]]]
) -> Mapping[str, Any]:
    """Ask one server.

    Raises:
        CodexError: It did not start, or refused.
    """

    async def asked(connections: Sequence[Connection]) -> Mapping[str, Any]:
        (connection,) = connections
        if connection.session is None:
            hint = f"`codex-framework mcp get {name}` shows its settings."
            raise CodexError(paragraph(connection.error), slug="mcp", hint=hint)
        try:
            return await connection.ask(work)
        except CodexError as error:
            raise CodexError(f"the MCP server {name!r}: {paragraph(str(error))}", slug="mcp") from error

    return await _run_with_servers(plugin, [Configured(plugin).usable(name).name], asked)


async def _run_with_servers(
    plugin: PluginContext, names: Sequence[str], work: Callable[[Sequence[Connection]], Awaitable[T]]
) -> T:
    """Start servers, and do something with their connections. Warnings are printed, except why a server cannot be used."""
    from codex_plugin_mcp.cli.thread import opened

    warnings: list[str] = []

    def on_event(event: EventMsg) -> None:
        if event.type == "warning":
            warnings.append(event.message)  # type: ignore[attr-defined]

    async def on_request(request: Request[Any]) -> object:
        return await answer(request, at_terminal())

    async with opened(plugin, names, on_event=on_event, on_request=on_request) as thread:
        connections = list((await thread.connections()).pool.connections.values())
        known = {one.error for one in connections}
        result = await work(connections)
    known |= {f"{error}. {error.hint}" for error in Configured(plugin).errors.values()}  # the caller's business
    for text in warnings:
        if text not in known:
            click.echo(f"warning: {paragraph(text)}", err=True)
    return result


# Showing


def _server_lines(
    server: Mapping[str, Any], what: str, lines: Callable[[Mapping[str, Any]], Iterator[str]]
) -> Iterator[str]:
    yield f"{printable(server['name'])} (failed)" if server["error"] else printable(server["name"])
    if server["error"]:
        yield textwrap.indent(paragraph(server["error"]), "  ")
    elif not any(server[key] for key in _LISTS[what]):
        yield f"  The server offers no {what}."
    for line in lines(server):
        yield f"  {line}"


def _prompt_lines(server: Mapping[str, Any]) -> Iterator[str]:
    for prompt in server["prompts"]:
        yield _heading(_text(prompt, "name"), _first_line(prompt))
        for argument in _mappings(prompt.get("arguments")):
            required = " (required)" if argument.get("required") is True else ""
            yield "  " + _heading(_text(argument, "name") + required, _first_line(argument))


def _resource_lines(server: Mapping[str, Any]) -> Iterator[str]:
    for key, address in (("resources", "uri"), ("resourceTemplates", "uriTemplate")):
        for resource in server[key]:
            kind = _text(resource, "mimeType")
            yield f"{_text(resource, address)}{f' ({kind})' if kind else ''}"
            about = _first_line(resource) or _text(resource, "title") or _text(resource, "name")
            if about:
                yield f"  {about}"


def _message_lines(prompt: Mapping[str, Any]) -> Iterator[str]:
    for message in _mappings(prompt.get("messages")):
        yield f"{_text(message, 'role')}:"
        content = message.get("content")
        for part in _mappings(content if isinstance(content, list) else [content]):
            yield textwrap.indent(block_text(part), "  ")


def _heading(name: str, about: str) -> str:
    return f"{name}: {about}" if about else name


def _first_line(item: Mapping[str, Any]) -> str:
    description = item.get("description")
    lines = description.strip().splitlines() if isinstance(description, str) else []
    return printable(lines[0]) if lines else ""


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return printable(value) if isinstance(value, str) else ""


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
