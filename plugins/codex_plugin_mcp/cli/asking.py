"""Questions on the terminal: the approval of a call, and questions of a server while it works."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from typing import Any

import click

from codex_framework import Request
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_mcp.cli.text import paragraph
from codex_plugin_mcp.questions import ElicitationAnswer, ElicitationRequest

__all__ = ["answer", "at_terminal", "line_of", "value_of"]


def at_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def line_of(question: str) -> str:
    """Ask on the terminal, and return the line that the person enters. The end of input is an empty line."""
    loop = asyncio.get_running_loop()
    entered: asyncio.Future[str] = loop.create_future()

    def done(line: str) -> None:
        if not entered.done():
            entered.set_result(line)

    def read() -> None:  # a thread of its own, which does not hold up the end of the process
        click.echo(question, err=True, nl=False)
        line = sys.stdin.readline()
        loop.call_soon_threadsafe(done, line)

    threading.Thread(target=read, name="question", daemon=True).start()
    return await entered


async def answer(request: Request[Any], asked: bool) -> object:  # noqa: FBT001  # one call, which reads well
    """Return the answer to a request that is no approval.

    Args:
        asked: Whether a person can be asked. Otherwise it is said that the question was cancelled.
    """
    if not isinstance(request, ElicitationRequest):
        return request.unattended()
    if not asked:
        click.echo(f"warning: {paragraph(request.subject)}; cancelled, as there is no terminal to ask on", err=True)
        return request.unattended()
    for problem in request.problems:
        click.echo(printable(problem), err=True)
    click.echo(f"The MCP server {printable(request.server_name)} asks:\n{paragraph(request.request.message)}", err=True)
    if request.request.mode == "url":
        return await _page(request)
    return await _form(request.request.requested_schema or {})


async def _page(request: ElicitationRequest) -> ElicitationAnswer:
    """Show the page. It is not opened, since the server has chosen it."""
    click.echo(f"It wants you to open a page of {printable(request.request.host or '')}:", err=True)
    click.echo(printable(request.request.url or ""), err=True)
    return ElicitationAnswer("accept" if await _ask_yes_no("Do you open it?") else "decline")


async def _form(form: Mapping[str, Any]) -> ElicitationAnswer:
    content: dict[str, Any] = {}
    required = form.get("required", ())
    for name, field in form.get("properties", {}).items():
        line = (await line_of(_prompt(name, field, required=name in required))).rstrip("\n")
        if line:
            content[name] = value_of(field, line)
    return (
        ElicitationAnswer("accept", content) if await _ask_yes_no("Send this answer?") else ElicitationAnswer("decline")
    )


async def _ask_yes_no(question: str) -> bool:
    return (await line_of(f"{question} [y]es/[N]o: ")).strip().lower() in ("y", "yes")


def _prompt(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    """Return the prompt of a field: ``Size (S or L; one of: "S", "L"; default: "S")``."""
    items = field.get("items")
    choices = field.get("enum") or (items.get("enum") if isinstance(items, Mapping) else None)
    notes = [
        str(field["description"]) if "description" in field else "",
        f"one of: {json.dumps(choices, ensure_ascii=False)}" if choices else "",
        "separated by commas" if field.get("type") == "array" else "",
        f"default: {json.dumps(field['default'], ensure_ascii=False)}" if field.get("default") is not None else "",
        "required" if required else "",
    ]
    shown = "; ".join(filter(None, notes))
    label = field.get("title") or name
    return f"{printable(str(label))}{f' ({printable(shown)})' if shown else ''}: "


def value_of(field: Mapping[str, Any], line: str) -> Any:
    """Return what a person entered as a value of the field's type. Invalid input stays a text, which the check then reports."""
    text = line.strip()
    match field.get("type"):
        case "array":
            return [part.strip() for part in text.split(",")]
        case "boolean":
            return {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}.get(
                text.lower(), line
            )
        case "integer" | "number":
            try:
                return int(text) if text.lstrip("+-").isdecimal() else float(text)
            except ValueError:
                return line
    return line
