"""Commands under limits on descriptors and processes: they wait until others have ended, instead of failing."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time

import pytest

from codex_framework.commands.process.running import Command, start_command
from codex_framework.commands.process.spawn import SpawnedProcess, Unconfined
from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.roles.sandboxes import Launch

ENV = {"PATH": os.environ["PATH"]}

_MANY_COMMANDS = """
import asyncio, os, resource, sys
from codex_framework.commands.process.running import start_command
from codex_framework.commands.process.spawn import Unconfined

async def run():
    command = await start_command(Unconfined(), argv=("sleep", "0.05"), cwd="/", env={"PATH": os.environ["PATH"]})
    return (await command.wait()).exit_code

async def main():
    await run()
    name, number, user = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if user:
        os.setuid(user)
    resource.setrlimit(getattr(resource, name), (number, number))
    print(await asyncio.gather(*(run() for _ in range(38))) == [0] * 38)

asyncio.run(main())
"""


async def start(confinement: Unconfined, *argv: str) -> Command:
    return await start_command(confinement, argv=argv, cwd="/", env=ENV)


class Scarce(Unconfined):
    """A confinement that fails with an error of the system, and works from the given moment on."""

    def __init__(self, number: int, error: type[Exception] = SandboxError) -> None:
        self.attempts = 0
        self.works = False
        self._number = number
        self._error = error

    async def start(self, launch: Launch) -> SpawnedProcess:
        self.attempts += 1
        if self.works:
            return await super().start(launch)
        raise self._error("the sandbox cannot be started") from OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize(
    ("limit", "number", "user"),
    [
        ("RLIMIT_NOFILE", 64, 0),
        pytest.param(
            "RLIMIT_NPROC",
            8,
            54_321,
            marks=pytest.mark.skipif(os.getuid() != 0, reason="needs a user without processes"),
        ),
    ],
)
def test_all_parallel_commands_run_under_a_limit(limit: str, number: int, user: int) -> None:
    argv = [sys.executable, "-c", _MANY_COMMANDS, limit, str(number), str(user)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("error", [SandboxError, CommandFailed])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EAGAIN])
def test_a_command_waits_for_the_end_of_another(number: int, error: type[Exception]) -> None:
    async def main() -> None:
        first = await start(Unconfined(), "sleep", "60")
        confinement = Scarce(number, error)
        second = asyncio.ensure_future(start(confinement, "true"))
        await asyncio.sleep(0.15)
        assert not second.done()
        assert confinement.attempts == 1  # it is not tried again and again
        confinement.works = True
        await first.kill()
        assert (await (await second).wait()).exit_code == 0

    asyncio.run(main())


def test_a_command_fails_at_once_if_no_other_command_runs() -> None:
    confinement = Scarce(errno.EMFILE)
    started = time.monotonic()
    with pytest.raises(SandboxError):
        asyncio.run(start(confinement, "true"))
    assert confinement.attempts == 1
    assert time.monotonic() - started < 5


def test_other_errors_are_not_waited_for() -> None:
    async def main() -> None:
        first = await start(Unconfined(), "sleep", "60")
        for confinement in (Scarce(errno.EACCES), Scarce(errno.ENOENT, CommandFailed)):
            with pytest.raises((SandboxError, CommandFailed)):
                await asyncio.wait_for(start(confinement, "true"), 5)
            assert confinement.attempts == 1
        await first.kill()

    asyncio.run(main())


def test_a_waiting_command_can_be_cancelled() -> None:
    async def main() -> None:
        first = await start(Unconfined(), "sleep", "60")
        second = asyncio.ensure_future(start(Scarce(errno.EAGAIN), "true"))
        await asyncio.sleep(0.1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first.kill()

    asyncio.run(main())
