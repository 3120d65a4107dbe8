"""Running one hook: a shell command that reads JSON from stdin, within its time limit."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from codex_framework import ThreadContext, ToolError, Value, shell_argv
from codex_framework.contract.roles.commands import CommandResult, RunningCommand
from codex_plugin_hooks.definitions import Handler
from codex_plugin_hooks.isolation import Isolation

__all__ = ["Ran", "run"]

_KEPT_BYTES = (1 << 20) - 8
"""A stream of this many bytes, or more, may have lost some. Characters at the gap may be missing, too."""

_LINE = 300
"""Longest text of a failed hook in a message, in characters."""


class Ran(Value, kw_only=True):
    """A run that has ended.

    Attributes:
        started_at: Unix time in seconds.
        ended_at: Unix time in seconds.
        exit_code: None if the command could not be started, or did not end in time.
        error: Why there is no exit code.
        isolation: How it was run.
        cut: Whether a part of stdout was not kept, because there was more than 1 MiB.
    """

    started_at: int
    ended_at: int
    duration_ms: int
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    isolation: Isolation = Isolation()
    cut: bool = False

    @property
    def failure(self) -> str:
        """A sentence about an exit code that means failure."""
        code = self.exit_code or 0
        name = ""
        if code > 128:
            with contextlib.suppress(ValueError):
                name = f" ({signal.Signals(code - 128).name})"
        line = next(filter(None, (line.strip() for line in self.stderr.splitlines())), "")
        text = f"hook exited with code {code}{name}" + (f": {line[:_LINE]}" if line else "")
        if code in (126, 127) and self.isolation.left_out:
            left_out = ", ".join(self.isolation.left_out)
            return f"{text} (hooks do not find programs where commands of the model can write: {left_out})"
        if "PYTHONSAFEPATH" in self.isolation.env and "ModuleNotFoundError" in self.stderr:
            return f"{text} (hooks do not find modules where commands of the model can write)"
        return text


async def run(
    handler: Handler,
    data: bytes,
    thread: ThreadContext,
    *,
    shell: str,
    cwd: Path,
    env: Mapping[str, str],
    isolation: Isolation,
) -> Ran:
    """Run a hook.

    Args:
        data: Its stdin.
        shell: The shell that runs its command.
        cwd: The working folder.
        env: Variables in addition to the variables of commands.
        isolation: The isolation of the hook.
    """
    started_at, started = int(time.time()), time.monotonic()
    if isolation.refusal:
        return Ran(
            started_at=started_at, ended_at=started_at, duration_ms=0, error=f"hook was not run: {isolation.refusal}"
        )
    env = {**env, **isolation.env}
    result: CommandResult | None = None
    error = ""
    try:
        process = await thread.start_process(shell_argv(handler.command, login=False, shell=shell), cwd=cwd, env=env)
        result = await _wait_for_end(process, data, handler.timeout_s)
        if result is None:
            error = f"hook timed out after {handler.timeout_s}s"
    except ToolError as failure:
        error = f"hook could not be started: {failure.fact}"
    ended_at, duration_ms = int(time.time()), int((time.monotonic() - started) * 1000)
    if result is None:
        return Ran(started_at=started_at, ended_at=ended_at, duration_ms=duration_ms, error=error)
    return Ran(
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=duration_ms,
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
        isolation=isolation,
        cut=result.omitted_bytes > 0 and len(result.stdout.encode("utf-8", "replace")) >= _KEPT_BYTES,
    )


async def _wait_for_end(process: RunningCommand, data: bytes, limit_s: float) -> CommandResult | None:
    """Wait for the end of a hook. None if it was killed, because it took too long."""
    feeding = asyncio.ensure_future(_feed(process, data))
    try:
        async with asyncio.timeout(limit_s):
            return await process.wait()
    except TimeoutError:
        await process.kill()
        return None
    except asyncio.CancelledError:  # the turn was interrupted, and with it what it waits for
        await asyncio.shield(process.kill())
        raise
    finally:
        feeding.cancel()


async def _feed(process: RunningCommand, data: bytes) -> None:
    with contextlib.suppress(ToolError):  # a hook need not read its input
        await process.write(data)
    await process.close_stdin()
