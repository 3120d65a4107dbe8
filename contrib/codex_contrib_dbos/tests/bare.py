"""Workflows of DBOS that call ``kernel.run``, without the launcher: ``python tests/bare.py URL``, with a workplace on stdin."""

from __future__ import annotations

import asyncio
import sys

from dbos import DBOS

from codex_framework import Agent
from codex_framework.contract.roles.launchers import Workplace
from codex_lib_launch.encoding import decode
from codex_lib_launch.worker import create_kernel


async def main() -> None:
    """Work until stdin ends."""
    workplace = decode(Workplace, sys.stdin.readline())
    async with await create_kernel(workplace) as kernel:
        DBOS(
            config={
                "name": "bare",
                "application_version": "bare",
                "system_database_url": sys.argv[1],
                "log_level": "ERROR",
                "enable_otlp": False,
            }
        )

        @DBOS.workflow(name="session")
        async def session(prompt: str) -> str:
            return str((await kernel.run(Agent(name="stepper"), prompt)).status)

        DBOS.listen_queues(["bare"])
        DBOS.launch()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await asyncio.to_thread(DBOS.destroy)


if __name__ == "__main__":
    asyncio.run(main())
