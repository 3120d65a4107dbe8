"""Commands in a sandbox, for its tests: permissions in a line, and a command run to its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codex_framework.contract.permissions.file_access import FileAccess, PathRule
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.sandboxes import Confinement, Launch

__all__ = ["ConfinedRun", "access_of", "run_confined"]


class ConfinedRun(NamedTuple):
    """A command that has ended.

    Attributes:
        status: The result of ``ChildProcess.wait``.
        output: The output of the command, stdout and stderr together.
    """

    status: int
    output: str


def access_of(modes: Mapping[Path, str], **fields: Any) -> FileAccess:
    """Return permissions from modes by path: ``access_of({tmp_path: "write", tmp_path / ".git": "read"})``.

    Args:
        modes: ``read``, ``write`` or ``deny``, by path.
        fields: Further fields of ``FileAccess``.
    """
    rules = tuple(PathRule(path, AccessMode(mode)) for path, mode in sorted(modes.items()))
    return FileAccess(rules=rules, **fields)


async def run_confined(
    confinement: Confinement,
    argv: Sequence[str],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdin: str = os.devnull,
    within_s: float = 60.0,
    **fields: Any,
) -> ConfinedRun:
    """Run a command in a sandbox to its end, and to the end of its output.

    Args:
        confinement: The result of ``Sandbox.confine``.
        argv: The command.
        cwd: The working folder of the command.
        env: Variables in addition to ``PATH`` and the confinement's variables, which they override.
        stdin: The file that the command reads.
        within_s: Time limit for the output, in seconds.
        fields: Further fields of ``Launch``.

    Raises:
        SandboxError, CommandFailed: As ``Confinement.start``.
        TimeoutError: The output did not end within the limit.
    """
    source = os.open(stdin, os.O_RDONLY)
    reader, writer = os.pipe()
    whole = {"PATH": os.environ.get("PATH", os.defpath), **confinement.env, **(env or {})}
    try:
        launch = Launch(argv=tuple(argv), cwd=str(cwd), env=whole, stdin=source, stdout=writer, stderr=writer, **fields)
        child = await confinement.start(launch)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        os.close(source)
    with os.fdopen(reader, "rb") as stream:
        output = await asyncio.wait_for(asyncio.to_thread(stream.read), within_s)
    return ConfinedRun(await child.wait(), output.decode("utf-8", "replace"))
