"""``codex-framework dbos-worker``: a worker of the launcher ``dbos``, on any machine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import click

from codex_framework.contract.errors import CodexError

__all__ = ["main"]


@click.command("dbos-worker", short_help="Run sessions of the launcher dbos.")
@click.option("-C", "--cd", "folder", metavar="DIR", help="The folder whose configuration is used.")
@click.option("-p", "--profile", metavar="PROFILE", help="Use a named set of settings.")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
@click.pass_context
def main(context: click.Context, /, *, folder: str | None, profile: str | None, overrides: Sequence[str]) -> None:
    """Run the sessions of a queue until ^C or SIGTERM. Sessions that run then go back to the queue.

    The table [framework.plugins.dbos] names the database and the queue. All workers of a queue must have the same agents and
    settings, and a thread store that they share.
    """
    from codex_framework.contract.roles.launchers import Workplace

    cwd = (Path.cwd() / (folder or "")).resolve()
    if not cwd.is_dir():
        raise CodexError(f"{cwd} is not a folder", slug="launch", hint="Name an existing folder with --cd.")
    files = [str(path) for path in context.find_object(tuple) or () if isinstance(path, Path)]
    asyncio.run(_run(Workplace(cwd=str(cwd), profile=profile, overrides=overrides, plugins=files)))
    os._exit(0)  # threads of DBOS may still wait for a database that is gone


async def _run(workplace: object) -> None:
    import uuid

    from codex_contrib_dbos.worker import run_worker
    from codex_framework.contract.roles.launchers import Workplace

    assert isinstance(workplace, Workplace)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await run_worker(workplace, str(uuid.uuid4()), stop, lambda text: click.echo(text, err=True))
