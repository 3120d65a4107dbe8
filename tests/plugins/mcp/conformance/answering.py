"""A program that runs one turn and accepts each question of a server with nothing but the form's defaults."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from codex_framework import Kernel, Request
from codex_framework.config import load_config
from codex_plugin_mcp.questions import ElicitationAnswer, ElicitationRequest


async def answer(request: Request) -> ElicitationAnswer | None:
    """Accept a question without filling in anything."""
    return ElicitationAnswer("accept", {}) if isinstance(request, ElicitationRequest) else None


async def main(cwd: Path, overrides: list[str]) -> int:
    """Run the turn and return the exit code."""
    config = load_config(cwd=cwd, environ=os.environ, overrides=overrides)
    async with await Kernel.create(config) as kernel:
        thread = await kernel.start_thread(cwd=cwd)
        result = await thread.run("Call every tool.", on_request=answer)
        print(result.status, result.error, result.final_message)
        return 0 if result.error is None else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:])))
