"""``codex-framework usage``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codex_framework import PluginContext, ThreadError, Tool
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.links import home_expanded

if TYPE_CHECKING:
    from codex_plugin_usage.folders import SessionFile
    from codex_plugin_usage.scan import By

__all__ = ["usage"]


@click.command("usage")
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option(
    "--by",
    type=click.Choice(["thread", "model", "day", "project", "tool", "plugin"]),
    default="thread",
    show_default=True,
    help="The meaning of a row.",
)
@click.option(
    "--since",
    metavar="WHEN",
    help="Only from then on: 7d (also m, h, w), 2026-11-20, 2026-11-20T18:00, today, yesterday.",
)
@click.option("--until", metavar="WHEN", help="Only until then. If it is a day, that day is included.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="The number of rows of the table."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all rows.")
@click.pass_obj
def usage(
    context: PluginContext,
    /,
    sessions: tuple[str, ...],
    by: By,
    since: str | None,
    until: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Show the tokens that sessions have used, and their cost.

    SESSION is the id, the name or the file of a session; its sub-agents are included. Without SESSION, all sessions on disk are
    read, including archived ones. Cached tokens are a part of the input, and reasoning tokens are a part of the output.

    No prices are built in. Set the prices of your models in [framework.plugins.usage.prices] of config.toml, or as "prices" in
    the file of `model_catalog_json`.
    """
    from codex_plugin_usage.prices import prices_for
    from codex_plugin_usage.scan import scan

    start, end = _period(since, until)
    home = context.codex_home
    _check_readable(home)
    warnings: dict[str, None] = {}
    report = scan(
        home,
        by=by,
        since=start,
        until=end,
        sessions=[_find_session(name, home) for name in sessions] or None,
        price=prices_for(context, warnings.setdefault),
        plugin_of=_plugins(context),
    )
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        from codex_plugin_usage.table import lines_of

        click.echo("\n".join(lines_of(report, limit)))
    _warn([*warnings, *report.problems.sentences()])


def _warn(sentences: Sequence[str]) -> None:
    from codex_framework.toolkit.terminal_text import printable

    for sentence in sentences:
        click.echo(f"warning: {printable(sentence)}", err=True)


def _period(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    from codex_plugin_usage.dates import moment

    start = None if since is None else moment(since, "--since")
    end = None if until is None else moment(until, "--until", end=True)
    if start is not None and end is not None and start > end:
        raise CodexError(
            f"--since {since!r} is after --until {until!r}",
            slug="usage-date",
            hint="Exchange the two, or fix one of them.",
        )
    return start, end


def _check_readable(home: Path) -> None:
    """Check that the sessions can be listed. Otherwise a report of nothing would look like a fact.

    Raises:
        ThreadError: They cannot.
    """
    folder = home / "sessions"
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ThreadError(
            f"cannot read {folder}: {error.strerror or error}",
            slug="thread-unreadable",
            hint="Make the folder readable, or check that CODEX_HOME is the folder with your sessions.",
        ) from error


def _find_session(name: str, home: Path) -> SessionFile | str:
    """Return the file of a session, or its id.

    Raises:
        ThreadError: There is no such session.
    """
    from codex_plugin_usage.folders import file_at, session_files
    from codex_plugin_usage.heads import thread_names
    from codex_plugin_usage.problems import Problems

    if "/" in name or name.endswith((".jsonl", ".jsonl.zst")):
        try:
            file = file_at(Path(home_expanded(name)).absolute())
        except (OSError, RuntimeError, ValueError) as error:
            raise ThreadError(
                f"cannot read {name}: {getattr(error, 'strerror', None) or error}",
                slug="thread-unreadable",
                hint="Make the file readable.",
            ) from error
        if file is not None:
            return file
        raise ThreadError(
            f"no session file found at {name}",
            slug="thread-not-found",
            hint="Name a file, an id or a name of a session.",
        )
    named = [thread for thread, known in thread_names(home).items() if known == name]
    wanted = {name, *named[-1:]}
    for known in session_files(home, Problems()):
        if known.thread_id in wanted:
            return known.thread_id
    raise ThreadError(
        f"no session found with the id or name {name}",
        slug="thread-not-found",
        hint=f"`codex-framework usage` lists the sessions in {home}.",
    )


def _plugins(context: PluginContext) -> Callable[[str], str | None]:
    """Return the plugin that offers a tool now. Tools of MCP servers are told by their names."""
    offered = context.offered(Tool)  # type: ignore[type-abstract]

    def plugin_of(tool: str) -> str | None:
        if tool in offered:
            return offered[tool].plugin
        return "mcp" if tool.startswith("mcp__") else None

    return plugin_of
