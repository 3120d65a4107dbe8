"""``codex-framework history``."""

from __future__ import annotations

import itertools
import json
from collections import deque
from datetime import UTC, datetime

import click

from codex_framework import PluginContext
from codex_framework.toolkit.tables import fit

__all__ = ["history"]


@click.command("history")
@click.argument("text", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=25, show_default=True, help="How many prompts.")
@click.option(
    "--session", "session", metavar="ID", help="Only prompts of this session, or of those whose ids begin so."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.pass_obj
def history(context: PluginContext, /, text: str | None, *, limit: int, session: str | None, as_json: bool) -> None:
    """Show the prompts that you have entered, newest last. With TEXT, show only prompts that contain it. Case does not matter."""
    from codex_plugin_message_history.history import history_of

    found = history_of(context.codex_home, context.config)
    wanted = (text or "").casefold()
    entries = deque(
        (
            (offset, entry)
            for offset, entry in found.entries()
            if wanted in entry.text.casefold() and entry.session_id.startswith(session or "")
        ),
        maxlen=limit,
    )
    if not entries and not as_json:
        click.echo("No prompts." if text is None and session is None else "No prompts found.")
    log_id = found.metadata()[0] if as_json else 0
    for offset, entry in entries:
        if as_json:
            line = {
                "log_id": log_id,
                "offset": offset,
                "session_id": entry.session_id,
                "ts": entry.ts,
                "text": entry.text,
            }
            click.echo(json.dumps(line, ensure_ascii=False))
        else:
            text = _printable(" ".join(entry.text.split()), 200)
            click.echo(fit(f"{_stamp(entry.ts)}  {_printable(entry.session_id, 8)}  {text}", "    "))


def _printable(text: str, most: int) -> str:
    """Return the first printable characters of a text. Others could control the terminal."""
    return "".join(itertools.islice((char for char in text if char.isprintable()), most))


def _stamp(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "?"
