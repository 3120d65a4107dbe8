"""Terminals of commands: they have a name, and nobody else's are to be seen."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import CommandFailed
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.slow

ENV = {"PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8", "TERM": "xterm"}


@pytest.fixture(params=["namespaces", "landlock"])
def level(request, harness):
    reason = harness.reason_to_skip(request.param, "root" if os.geteuid() == 0 else "ordinary")
    if reason:
        pytest.skip(reason)
    return request.param


def with_terminal(level, place, work):
    """``work(start)``, where ``start`` runs a command on a terminal."""

    async def main():
        sandbox = LandlockSandbox(level)
        confinement = sandbox.confine(place.access(), place.work)

        def start(*argv, tty=True, **options):
            return start_command(confinement, argv=argv, cwd=str(place.work), env=ENV, tty=tty, **options)

        try:
            async with asyncio.timeout(20):
                return await work(start)
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


async def output_of(started):
    return (await (await started).wait()).output.replace("\r\n", "\n")


def test_it_has_a_name(level, place):
    script = "tty; python3 -S -c 'import os; print(os.ttyname(0), os.ttyname(1) == os.ttyname(2))'; test -c $(tty) && echo there"

    async def work(start):
        return await output_of(start("sh", "-c", script))

    name, named, there = with_terminal(level, place, work).splitlines()
    assert name.startswith("/dev/pts/")
    assert (named, there) == (f"{name} True", "there")


def test_it_is_the_controlling_one_and_has_the_usual_size(level, place):
    async def work(start):
        return await output_of(
            start("sh", "-c", "echo by name >/dev/tty; stty size; ps -o tty= -p $$; exec 3<$(tty) && echo open")
        )

    assert with_terminal(level, place, work).split("\n")[:2] == ["by name", "24 80"]


@pytest.mark.skipif(not shutil.which("script"), reason="needs script")
def test_programs_that_make_terminals_work(level, place):
    async def work(start):
        return await output_of(start("script", "-qc", "echo in there; tty", "/dev/null"))

    words = with_terminal(level, place, work).split("\n")
    assert words[0] == "in there"
    assert words[1].startswith("/dev/pts/")


def test_others_are_not_there(place, harness):
    if reason := harness.reason_to_skip("namespaces", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    ours, theirs = os.openpty()
    try:

        async def work(start):
            return await output_of(start("ls", "/dev/pts"))

        listed = with_terminal("namespaces", place, work).split()
        assert set(listed) == {"0", "ptmx"}
        assert Path(os.ttyname(theirs)).exists()
    finally:
        os.close(ours)
        os.close(theirs)


def test_it_can_be_written_to_and_interrupted(level, place):
    async def work(start):
        command = await start("sh", "-c", "read line; echo got $line; read more")
        await command.write(b"word\n")
        seen = b""
        async for chunk in command.chunks():
            seen += chunk.data
            if seen.endswith(b"got word\r\n"):
                await command.write(b"\x03")
        return (await command.wait()).exit_code

    assert with_terminal(level, place, work) == 128 + signal.SIGINT


def test_it_is_the_commands_own(level, place):
    """Several at once, one after another, and one that cannot be started."""

    async def work(start):
        many = await asyncio.gather(
            *(output_of(start("sh", "-c", f"sleep 0.05; echo {number}")) for number in range(10))
        )
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(CommandFailed):
            await start("no-such-program")
        last = await output_of(start("echo", "last"))
        return many, last, len(list(Path("/proc/self/fd").iterdir())) <= before

    many, last, closed = with_terminal(level, place, work)
    assert many == [f"{number}\n" for number in range(10)]
    assert (last, closed) == ("last\n", True)


def test_all_that_was_printed_is_read_to_the_end(level, place):
    async def work(start):
        return len(await output_of(start("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x")))

    assert with_terminal(level, place, work) == 300_000
