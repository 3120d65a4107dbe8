"""``codex-framework sessions``, and Codex's ``archive``, ``unarchive`` and ``delete``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codex_framework import PluginContext, ThreadError
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.links import home_expanded

if TYPE_CHECKING:
    from codex_framework.contract.roles.stores import ThreadFault, ThreadPage, ThreadQuery
    from codex_plugin_sessions.stores import Sessions

__all__ = ["archive", "delete", "sessions", "unarchive"]

_SESSION = click.argument("session", metavar="SESSION", required=False)
_LAST = click.option("--last", is_flag=True, help="Use the session of this folder that was changed last.")
_NO_SESSION = "name a session, or add --last"
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("sessions")
def sessions() -> None:
    """List, search, show and manage the sessions on disk.

    SESSION is the id of a session or its beginning, its name, or its file.
    """


def _page_options(function: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "--limit", type=click.IntRange(1, 10_000), default=25, show_default=True, help="Sessions on a page."
            ),
            click.option(
                "--cursor", metavar="CURSOR", help="Continue after this cursor, which the previous page printed."
            ),
            click.option("--cwd", metavar="DIR", help="Only sessions that were started in this folder."),
            click.option("--archived", is_flag=True, help="Only archived sessions."),
            click.option(
                "--all", "everything", is_flag=True, help="Include archived sessions and sessions of sub-agents."
            ),
            _JSON,
        )
    ):
        function = option(function)
    return function


@sessions.command("list")
@_page_options
@click.pass_obj
def list_sessions(context: PluginContext, /, *, as_json: bool, **options: Any) -> None:
    """List sessions, most recently changed first."""
    _print_page(_sessions(context).find(_query(None, **options)), as_json=as_json, searched=False)


@sessions.command("search")
@click.argument("text")
@_page_options
@click.pass_obj
def search_sessions(context: PluginContext, /, text: str, *, as_json: bool, **options: Any) -> None:
    """List the sessions whose name or messages contain TEXT. Case does not matter."""
    if not text.strip():
        raise click.UsageError("TEXT is empty")
    _print_page(_sessions(context).find(_query(text, **options)), as_json=as_json, searched=True)


@sessions.command("show")
@_SESSION
@_LAST
@_JSON
@click.pass_obj
def show(context: PluginContext, /, session: str | None, *, last: bool, as_json: bool) -> None:
    """Show where a session comes from, and its numbered turns."""
    from codex_plugin_sessions.transcript import session_json, session_lines

    here = _sessions(context)
    stored = here.load(_choose_session_name(context, session, last=last))
    if as_json:
        _print_json(session_json(stored))
        return
    for line in session_lines(stored):
        click.echo(line)
    _warn(stored.warnings)


@sessions.command("name")
@click.argument("session", metavar="SESSION")
@click.argument("name")
@click.pass_obj
def name_session(context: PluginContext, /, session: str, name: str) -> None:
    """Give SESSION a name that can be used instead of its id. An empty NAME removes its name."""
    here = _sessions(context)
    shown = _display_id(here, session)
    here.store.rename(session, name, here.home)
    click.echo(f"Named session {shown} {name!r}." if name.strip() else f"Removed the name of session {shown}.")


@sessions.command("archive")
@_SESSION
@_LAST
@click.pass_obj
def archive(context: PluginContext, /, session: str | None, *, last: bool) -> None:
    """Archive SESSION.

    It is no longer listed, and cannot be resumed until it is unarchived.
    """
    here = _sessions(context)
    named = _choose_session_name(context, session, last=last)
    shown = _display_id(here, named)
    here.store.archive(named, here.home)
    click.echo(f"Archived session {shown}.")


@sessions.command("unarchive")
@click.argument("session", metavar="SESSION")
@click.pass_obj
def unarchive(context: PluginContext, /, session: str) -> None:
    """Move SESSION back from the archive."""
    here = _sessions(context)
    shown = _display_id(here, session)
    here.store.unarchive(session, here.home)
    click.echo(f"Unarchived session {shown}.")


@sessions.command("delete")
@click.argument("session", metavar="SESSION")
@click.option("--force", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete(context: PluginContext, /, session: str, *, force: bool) -> None:
    """Delete SESSION permanently. Files that it changed are not touched."""
    here = _sessions(context)
    shown = _display_id(here, session)
    if not force:
        if not os.isatty(0):
            raise ThreadError(
                "cannot confirm session deletion without an interactive terminal",
                slug="confirmation",
                hint="Run it again with --force.",
            )
        click.confirm(f"Delete session {shown} for ever?", abort=True)
    here.store.delete(session, here.home)
    click.echo(f"Deleted session {shown}.")


@sessions.command("check")
@_SESSION
@_JSON
@click.pass_context
def check(context: click.Context, /, session: str | None, *, as_json: bool) -> None:
    """Check the files of SESSION, or of all sessions. The exit status is 1 if one of them is damaged."""
    here = _sessions(context.obj)
    found = list(here.store.check(here.home, session))
    _print_faults(found, as_json=as_json, repaired=False)
    context.exit(1 if found else 0)


@sessions.command("repair")
@_SESSION
@click.option("--all", "everything", is_flag=True, help="Repair all sessions.")
@_JSON
@click.pass_context
def repair(context: click.Context, /, session: str | None, *, everything: bool, as_json: bool) -> None:
    """Repair the file of SESSION. Every line that can be read is kept, and the damaged file, too, beside the repaired one.

    The exit status is 1 if a damage remains.
    """
    here = _sessions(context.obj)
    if (session is None) is not everything:
        raise click.UsageError("name a session, or add --all")
    from codex_framework.contract.roles.stores import ThreadFault

    found: list[ThreadFault] = []
    damaged = [session] if session is not None else _damaged_sessions(here.store.check(here.home))
    for name in damaged:
        try:
            found += here.store.repair(name, here.home)
        except ThreadError as error:
            if not everything:
                raise
            found.append(ThreadFault(thread_id=None, fact=error.fact, path=name))
            _warn([f"{error.fact}. {error.hint}"])
    _print_faults(found, as_json=as_json, repaired=True)
    context.exit(1 if any(fault.repair is None for fault in found) else 0)


@sessions.command("export")
@_SESSION
@_LAST
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "json", "markdown"]),
    default="jsonl",
    show_default=True,
    help="jsonl: one file that resumes anywhere; json: turns, messages and settings; markdown: a text to read.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file, which must not exist, instead of stdout.")
@click.pass_obj
def export(context: PluginContext, /, session: str | None, form: str, output: str | None, *, last: bool) -> None:
    """Write a session with its earlier parts as one text."""
    here = _sessions(context)
    name = _choose_session_name(context, session, last=last)
    lines = here.store.export(name, here.home) if form == "jsonl" else _export_text(here, name, form)
    if output is None:
        from codex_plugin_sessions.table import for_terminal

        sys.stdout.flush()
        sys.stdout.buffer.writelines(map(for_terminal, lines) if sys.stdout.isatty() else lines)
        sys.stdout.buffer.flush()
        return
    _write_new(Path(output), lines)
    click.echo(f"Wrote {output}.", err=True)


def _sessions(context: PluginContext) -> Sessions:
    from codex_plugin_sessions.stores import sessions_of

    return sessions_of(context)


def _query(
    text: str | None, *, limit: int, cursor: str | None, cwd: str | None, archived: bool, everything: bool
) -> ThreadQuery:
    from codex_framework.contract.roles.stores import ThreadQuery

    return ThreadQuery(
        limit=limit,
        cursor=cursor,
        cwd=None if cwd is None else str(Path(home_expanded(cwd)).absolute()),
        text=text,
        archived=None if everything else archived,
        subagents=everything,
    )


def _display_id(here: Sessions, session: str) -> str:
    """Return the id of a session, to print it. The store gets the user's own word, which means the same session to it."""
    from codex_framework.toolkit.terminal_text import printable

    return printable(here.id_of(session))


def _choose_session_name(context: PluginContext, session: str | None, *, last: bool) -> str:
    """Return which session is meant. At a terminal, the person chooses one if none is named.

    Raises:
        UsageError: Both a session and ``--last`` were given, or neither without a terminal.
        Abort: The person has chosen none.
        ThreadError: No session was started in this folder.
    """
    if session is not None and last:
        raise click.UsageError(_NO_SESSION)
    if session is not None:
        return session
    if not last:
        from codex_framework.toolkit.session_choice import chosen_session

        return chosen_session(context, "Choose a session", missing=_NO_SESSION)
    here = _sessions(context)
    newest = here.store.latest(here.home, cwd=str(Path.cwd()))
    if newest is None:
        raise ThreadError(
            f"no session was started in {Path.cwd()}",
            slug="thread-not-found",
            hint="`codex-framework sessions list` lists the sessions of all folders.",
        )
    return newest


def _print_json(data: Mapping[str, Any]) -> None:
    from codex_plugin_sessions.table import for_terminal

    text = json.dumps(data, indent=2, ensure_ascii=False)
    click.echo(for_terminal(text.encode("utf-8", "backslashreplace")).decode() if sys.stdout.isatty() else text)


def _print_page(page: ThreadPage, *, as_json: bool, searched: bool) -> None:
    from codex_plugin_sessions.table import page_json, page_lines

    if as_json:
        _print_json(page_json(page))
        return
    for line in page_lines(page, searched=searched):
        click.echo(line)


def _print_faults(found: list[ThreadFault], *, as_json: bool, repaired: bool) -> None:
    from codex_plugin_sessions.table import fault_lines, faults_json

    if as_json:
        _print_json(faults_json(found))
        return
    for line in fault_lines(found, repaired=repaired):
        click.echo(line)


def _damaged_sessions(found: Iterable[ThreadFault]) -> list[str]:
    """Return the sessions to repair, each once."""
    return list(dict.fromkeys(str(fault.path or fault.thread_id) for fault in found if fault.repair is not None))


def _export_text(here: Sessions, name: str, form: str) -> Iterable[bytes]:
    from codex_plugin_sessions.transcript import markdown, session_json

    stored = here.load(name)
    if form == "json":
        return [json.dumps(session_json(stored), indent=2, ensure_ascii=False).encode("utf-8", "replace"), b"\n"]
    return (f"{line}\n".encode("utf-8", "replace") for line in markdown(stored))


def _write_new(path: Path, lines: Iterable[bytes]) -> None:
    try:
        with path.open("xb") as file:
            file.writelines(lines)
    except OSError as error:
        raise CodexError(
            f"cannot write {path}: {error.strerror or error}",
            slug="session-export",
            hint="Name a file that does not exist, in a writable folder.",
        ) from error


def _warn(sentences: Iterable[str]) -> None:
    from codex_framework.toolkit.terminal_text import printable

    for sentence in sentences:
        click.echo(f"warning: {printable(sentence)}", err=True)
