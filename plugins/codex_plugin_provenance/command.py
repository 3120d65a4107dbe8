"""``codex-framework why``."""

from __future__ import annotations

import json

import click

from codex_framework import PluginContext
from codex_framework.toolkit.terminal_text import printable

__all__ = ["why"]


@click.command("why")
@click.argument("session", metavar="[SESSION", required=False)
@click.argument("item", metavar="[ITEM]]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def why(context: PluginContext, session: str | None, item: str | None, *, as_json: bool) -> None:
    """Show who changed, refused or added something in a session.

    SESSION is an id, the beginning of an id, the path of a file, or `last`. ITEM is the number or the id of an item, the id of a call,
    or the name of a tool. Without it, everything is listed by turn, with the numbers of the items. At a terminal, you choose the
    session if you name none.
    """
    from codex_plugin_provenance import answers
    from codex_plugin_provenance.files import Files
    from codex_plugin_provenance.reading import session_of
    from codex_plugin_provenance.subjects import subject_named

    if session is None:
        from codex_framework.toolkit.session_choice import chosen_session

        session = chosen_session(context, "Ask about a session", missing="Missing argument 'SESSION'.")
    files = Files(context.codex_home)
    found = session_of(files.find(session), files)
    subject = None if item is None else subject_named(found, item)
    if as_json:
        data = answers.overview_data(found) if subject is None else answers.answer_data(found, subject)
        click.echo(json.dumps(data, indent=2))
        return
    for line in answers.overview_lines(found) if subject is None else answers.answer_lines(found, subject):
        click.echo(line)
    for fault in found.faults:
        click.echo(printable(f"Warning: {fault}"), err=True)
