"""Accesses and commands to try a sandbox with."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from codex_framework import AccessMode, FileAccess, Launch, PathRule

__all__ = ["Ended", "access_of", "output_of"]


class Ended:
    def __init__(self, status: int, output: str) -> None:
        self.status = status
        self.output = output

    def __repr__(self) -> str:
        return f"{self.status}: {self.output!r}"


def access_of(modes: dict[Path, str], **changes: Any) -> FileAccess:
    listed = tuple(PathRule(path, AccessMode(mode)) for path, mode in sorted(modes.items()))
    return FileAccess(rules=listed, **changes)


async def output_of(
    confinement: Any, argv: tuple[str, ...], cwd: Path, *, env: dict[str, str] | None = None, **more: Any
) -> Ended:
    """Run a command to its end, with its output on a pipe."""
    reader, writer = os.pipe()
    stdin = os.open(os.devnull, os.O_RDONLY)
    whole = {"PATH": os.environ["PATH"], **confinement.env, **(env or {})}
    try:
        launch = Launch(argv=argv, cwd=str(cwd), env=whole, stdin=stdin, stdout=writer, stderr=writer, **more)
        child = await confinement.start(launch)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        os.close(stdin)
    with open(reader, "rb") as stream:
        said = await asyncio.to_thread(stream.read)
    return Ended(await child.wait(), said.decode("utf-8", "replace"))
