"""The process of a worker that a program has started: ``python -m codex_contrib_dbos.local ID``, with its workplace on stdin."""

from __future__ import annotations

import asyncio
import os
import sys

from codex_contrib_dbos.processes import READY
from codex_contrib_dbos.worker import run_worker
from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.launchers import Workplace
from codex_lib_launch.encoding import decode

__all__ = ["main"]


async def _run(workplace: Workplace, executor_id: str, output: int) -> None:
    """Work until the pipe from the program ends."""
    stop = asyncio.Event()

    def read() -> None:
        if not os.read(0, 4096):
            stop.set()

    asyncio.get_running_loop().add_reader(0, read)
    await run_worker(workplace, executor_id, stop, lambda _: os.write(output, READY))


def main() -> None:
    """Run the worker."""
    output = os.dup(1)
    os.dup2(2, 1)  # what plugins print is for people
    workplace = decode(Workplace, sys.stdin.buffer.readline())
    try:
        asyncio.run(_run(workplace, sys.argv[1], output))
    except CodexError as error:
        os.write(output, f"{error.fact}. {error.hint}\n".encode())
        os._exit(1)
    os._exit(0)  # threads of DBOS may still wait for a database that is gone


if __name__ == "__main__":
    main()
