"""``codex-framework trace``: show a trace, or a recorded session, as a page."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from codex_framework import PluginContext
from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.replacement import NotPermittedError, replace_file
from codex_framework.toolkit.terminal_text import printable

__all__ = ["trace"]


@click.group("trace")
def trace() -> None:
    """Show traces and recorded sessions.

    `exec --trace FILE` writes a trace.
    """


@trace.command("view")
@click.argument("sources", nargs=-1, metavar="[FILE | SESSION]...")
@click.option("--last", is_flag=True, help="Show the session that was written last.")
@click.option(
    "--output",
    metavar="FILE",
    help="Write the page to this file, or into this folder; - means stdout. Default: a new folder in the temporary folder.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.pass_obj
def view(context: PluginContext, sources: tuple[str, ...], output: str | None, *, last: bool, opens: bool) -> None:
    """Make an HTML page of a trace or a recorded session.

    It is a timeline of the turns with calls, outputs, changes, times, tokens and cost. FILE is a trace or a session's file.
    SESSION is the id of a recorded session, the beginning of one, or a session's name. The page contains everything it needs, and
    loads nothing. Several sources need a folder as --output, which gets a page for each.
    """
    from codex_plugin_trace.reading.sources import latest_session, source_named

    if sources and last:
        raise click.UsageError("--last cannot be combined with a source.")
    if output == "-" and opens:
        raise click.UsageError("--open needs a file.")
    folder = None if output is None or not Path(output).is_dir() else Path.cwd() / output
    if len(sources) > 1 and folder is None:
        raise click.UsageError("Several sources need --output FOLDER. The folder must exist.")
    if not sources and not last:
        from codex_framework.toolkit.session_choice import chosen_session

        sources = (chosen_session(context, "Show a session", missing="Name a file or a session, or add --last."),)
    home = context.codex_home
    failure: CodexError | None = None
    for source in sources or (None,):
        try:
            path = latest_session(home) if source is None else source_named(source, home)
            page = _page(path, context)
            if output == "-":
                sys.stdout.buffer.write(page)
                return
            target = _target(path, source, output, folder)
            _write(target, page)
        except CodexError as error:
            if len(sources) < 2:
                raise
            failure = error
            click.echo(f"warning: {printable(error.fact)}", err=True)
            continue
        click.echo(target)
        if opens:
            _open(target)
    if failure is not None:
        raise failure


def _page(path: Path, context: PluginContext) -> bytes:
    """Return the page of a file, and show its warnings. Raises CodexError."""
    from codex_plugin_trace.page.data import page_data
    from codex_plugin_trace.page.document import document
    from codex_plugin_trace.prices import prices_for
    from codex_plugin_trace.reading.sources import read_timeline

    timeline = read_timeline(path, context.codex_home)
    page = document(page_data(timeline, prices_for(context))).encode("utf-8")
    for warning in timeline.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    return page


def _target(path: Path, source: str | None, output: str | None, folder: Path | None) -> Path:
    if folder is not None:  # a page is found by the name that the session was asked for
        return folder / f"{Path(source or path).name.partition('.')[0] or 'trace'}.html"
    if output is not None:
        return Path.cwd() / output
    return Path(tempfile.mkdtemp(prefix="codex-trace-")) / f"{path.name.partition('.')[0] or 'trace'}.html"


def _write(target: Path, page: bytes) -> None:
    try:
        if not target.parent.is_dir():
            raise FileNotFoundError(2, "its folder does not exist")
        replace_file(target, page, mode=0o600, sync=False)
    except (NotPermittedError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Name another file with --output, or free some disk space."
        raise CodexError(f"cannot write {target}: {reason}", slug="trace-page", hint=hint) from error


def _open(target: Path) -> None:
    import webbrowser

    if not webbrowser.open(target.as_uri()):
        click.echo("warning: no browser could be started; open the file yourself.", err=True)
