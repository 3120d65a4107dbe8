"""Runs commands under a confinement and collects their results, for the check of sandboxes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from codex_framework.contract.roles.sandboxes import Confinement, Launch
from codex_framework.testing.conformance.findings import Findings

__all__ = ["Ended", "Runner"]

_WITHIN_S = 20.0


class Ended:
    """A command that has ended.

    Attributes:
        status: As ``ChildProcess.wait`` returned it.
        stdout, stderr: Its output.
    """

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        said = (self.stdout + self.stderr).strip()
        return f"status {self.status}" + (f", output {said[:200]!r}" if said else "")


class Runner:
    """Runs commands in one folder."""

    def __init__(self, findings: Findings, cwd: Path) -> None:
        self.cwd = cwd
        self._findings = findings

    async def run(
        self,
        confinement: Confinement,
        argv: Sequence[str],
        *,
        stdin: bytes | None = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        what: str = "a command",
    ) -> Ended:
        """Run a command to its end, and to the end of its output.

        Args:
            stdin: Its input. The default is the null device.

        Raises:
            SandboxError, CommandFailed: See ``Confinement.start``.
            Unmet: It raised another exception, or did not end. This is recorded.
        """
        launched, mine = _pipes() if stdin is not None else _outputs()
        try:
            launch = Launch(
                argv=tuple(argv),
                cwd=cwd or str(self.cwd),
                env=env if env is not None else self.environment(confinement),
                stdin=launched[0],
                stdout=launched[1],
                stderr=launched[2],
            )
            from codex_framework.contract.errors import CommandFailed, SandboxError

            allowed = (SandboxError, CommandFailed)
            child = await self._findings.wait_for(
                f"starting {what}", confinement.start(launch), within_s=_WITHIN_S, allowed=allowed
            )
        except BaseException:
            _close(*mine)
            raise
        finally:
            _close(*launched)
        loop = asyncio.get_running_loop()
        feeding = [] if stdin is None else [loop.run_in_executor(None, _feed, mine[0], stdin)]
        readings = [loop.run_in_executor(None, _drain, descriptor) for descriptor in mine[-2:]]
        try:
            status = await self._findings.wait_for(what, child.wait(), within_s=_WITHIN_S)
        except BaseException:
            child.signal(9)
            raise
        finally:
            await asyncio.gather(*feeding)
            stdout, stderr = await asyncio.gather(*readings)
        return Ended(status, stdout, stderr)

    def environment(self, confinement: Confinement) -> dict[str, str]:
        """Return a small environment, with the confinement's variables."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": str(self.cwd), "LANG": "C.UTF-8", **confinement.env}


def _outputs() -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return the command's descriptors with an empty input, and our ends of its output."""
    (stdin, *launched), (feed, *mine) = _pipes()
    _close(stdin, feed)
    return (os.open(os.devnull, os.O_RDONLY), launched[0], launched[1]), tuple(mine)


def _pipes() -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return the command's descriptors, and our ends of them."""
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    stderr_read, stderr_write = os.pipe()
    return (stdin_read, stdout_write, stderr_write), (stdin_write, stdout_read, stderr_read)


def _feed(descriptor: int, data: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except BrokenPipeError:
        return  # the command did not read all of it


def _drain(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read().decode("utf-8", "replace")


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
