"""``codex-framework proto``: a thread's queues of ops and events, as JSON lines over stdin and stdout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from codex_framework.toolkit.lazy_command import help_group

__all__ = ["main"]


@help_group("Serve")
@click.command("proto")
@click.option("-C", "--cd", "folder", metavar="DIR", help="The working folder.")
@click.option("-p", "--profile", metavar="PROFILE", help="Use a named set of settings.")
@click.option("--enable", multiple=True, metavar="FEATURE", help="Enable a feature.")
@click.option("--disable", multiple=True, metavar="FEATURE", help="Disable a feature.")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
@click.pass_context
def main(
    context: click.Context,
    /,
    *,
    folder: str | None,
    profile: str | None,
    enable: Sequence[str],
    disable: Sequence[str],
    overrides: Sequence[str],
) -> None:
    """Start a thread, and exchange its ops and events as JSON lines over stdin and stdout.

    Each line of stdin is {"id": ID, "op": {"type": ..., ...}}, and each line of stdout {"id": ID, "msg": {"type": ..., ...}}. The
    reference of the protocol lists the ops and events. At the end of stdin, the running turn is finished first.
    """
    from codex_client_proto.session import serve

    switches = [*(f"features.{name}=true" for name in enable), *(f"features.{name}=false" for name in disable)]
    files = [path for path in context.find_object(tuple) or () if isinstance(path, Path)]
    context.exit(serve(Path.cwd() / (folder or ""), profile, [*overrides, *switches], files))
