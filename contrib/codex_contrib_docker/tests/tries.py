"""Streams of commands that are not awaited to their end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from codex_framework import Launch

__all__ = ["Streams"]


class Streams:
    """Standard streams of a command: nothing to read, and a pipe for what it prints."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.stdin = os.open(os.devnull, os.O_RDONLY)

    def launch(self, argv: tuple[str, ...], cwd: Path, env: dict[str, str] | None = None) -> Launch:
        whole = {"PATH": os.environ["PATH"], **(env or {})}
        return Launch(argv=argv, cwd=str(cwd), env=whole, stdin=self.stdin, stdout=self.writer, stderr=self.writer)

    def started(self) -> None:
        os.close(self.writer)
        os.close(self.stdin)

    async def output(self) -> str:
        with os.fdopen(self.reader, "rb") as stream:
            return (await asyncio.to_thread(stream.read)).decode("utf-8", "replace")
