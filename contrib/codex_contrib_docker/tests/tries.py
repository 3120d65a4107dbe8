"""Accesses and commands to try a sandbox with."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from codex_framework import AccessMode, FileAccess, Launch, PathRule

__all__ = ["Ended", "Streams", "access_of", "output_of"]


def access_of(modes: dict[Path, str], **changes: Any) -> FileAccess:
    listed = tuple(PathRule(path, AccessMode(mode)) for path, mode in sorted(modes.items()))
    return FileAccess(rules=listed, **changes)


class Ended:
    def __init__(self, status: int, output: str) -> None:
        self.status = status
        self.output = output

    def __repr__(self) -> str:
        return f"{self.status}: {self.output!r}"


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


async def output_of(plan: Any, argv: tuple[str, ...], cwd: Path, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    streams = Streams()
    try:
        child = await plan.start(streams.launch(argv, cwd, env))
    except BaseException:
        os.close(streams.reader)
        raise
    finally:
        streams.started()
    said = await streams.output()
    return Ended(await child.wait(), said)
