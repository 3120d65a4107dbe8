"""Unconfined commands end with the process that has started them, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework.commands.process.running import start_command
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.commands.process.watcher import WATCHER, Watcher
from codex_framework.testing.leftovers import Leftovers

ENV = {"PATH": os.defpath, "LANG": "C.UTF-8"}

PARENT = """
import asyncio, os, sys
from codex_framework.commands.process.running import start_command
from codex_framework.commands.process.spawn import Unconfined

SCRIPTS = (
    "sleep 100",
    "exec sleep 100",
    "sleep 100 & sleep 100 & wait",
    "trap '' TERM INT HUP; sleep 100 & while :; do sleep 1; done",
    "set -m; sleep 100 & sleep 100 & wait",
)

async def main():
    unconfined = Unconfined()
    await unconfined.warm()
    env = {"PATH": os.defpath, "MARK": sys.argv[1]}
    for _ in range(10):
        await (await start_command(unconfined, argv=["true"], cwd="/", env=env)).wait()
    for script in SCRIPTS:
        for tty in (False, True):
            await start_command(unconfined, argv=["sh", "-c", script], cwd="/", env=env, tty=tty)
    print("ready", flush=True)
    await asyncio.sleep(100)

asyncio.run(main())
"""


def marked(mark: str) -> list[int]:
    """The running processes with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def gone(mark: str, within_s: float = 20) -> bool:
    end = time.monotonic() + within_s
    while marked(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_commands_end_with_a_killed_parent(number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    parent = subprocess.Popen([sys.executable, "-c", PARENT, mark], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert len(marked(mark)) >= 10
        parent.send_signal(number)
        parent.wait()
        assert gone(mark), marked(mark)
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_nothing_survives_seventy_kills_at_any_time() -> None:
    """Each kill comes at another moment, while commands are being started."""
    chance = random.Random(4711)
    for _ in range(70):
        mark = uuid.uuid4().hex
        parent = subprocess.Popen([sys.executable, "-c", PARENT, mark], stdout=subprocess.DEVNULL)
        while not marked(f"MARK={mark}") and parent.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        parent.kill()
        parent.wait()
        assert gone(f"MARK={mark}"), [
            (Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/stat").read_text()) for pid in marked(mark)
        ]


async def _finished(script: str) -> int:
    command = await start_command(Unconfined(), argv=["sh", "-c", script], cwd="/", env=ENV)
    return (await command.wait()).exit_code


def test_a_command_that_has_ended_is_not_remembered() -> None:
    async def main() -> None:
        running = [await start_command(Unconfined(), argv=["sleep", "60"], cwd="/", env=ENV) for _ in range(3)]
        assert {one.process_id for one in running} <= set(WATCHER._slots)
        assert await _finished("exit 3") == 3
        for one in running:
            await one.kill()
        assert WATCHER._slots == {}
        made = WATCHER._made
        assert os.pread(WATCHER._table, 10_000, 0).strip() == b""
        await _finished("true")
        assert WATCHER._made == made, "slots are used again"

    asyncio.run(main())


def test_a_start_of_the_watcher_leaves_nothing_behind_that_a_test_would_report() -> None:
    async def main() -> None:
        WATCHER._close()
        leftovers = Leftovers()
        assert await _finished("true") == 0
        assert await leftovers.found() == []

    asyncio.run(main())


def test_a_watcher_that_was_killed_is_replaced_and_knows_what_runs() -> None:
    watcher = Watcher()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as command:
        try:
            watcher.ensure()
            watcher.note(watcher.announce(None), command.pid)
            (shell,) = reading(watcher._pipe)
            os.kill(shell, signal.SIGKILL)
            while not watcher._ends.poll(0):
                time.sleep(0.001)
            watcher.ensure()
            assert list(watcher._slots) == [command.pid]
            os.close(watcher._pipe)  # as if this process had ended
            watcher._pipe = -1
            assert command.wait(timeout=20) == -signal.SIGTERM
        finally:
            command.kill()
            watcher._close()


@contextlib.contextmanager
def ended_watcher() -> Iterator[Watcher]:
    """A watcher. At the end of the block it learns that this process has ended."""
    watcher = Watcher()
    watcher.ensure()
    try:
        yield watcher
        os.close(watcher._pipe)
        watcher._pipe = -1
    finally:
        watcher._close()


def test_more_commands_than_the_list_has_lines_for_at_first() -> None:
    commands = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(20)]
    try:
        with ended_watcher() as watcher:
            slots = [watcher.announce(None) for _ in commands]
            for slot, command in zip(slots, commands, strict=True):
                watcher.note(slot, command.pid)
        assert {command.wait(timeout=20) for command in commands} == {-signal.SIGTERM}
    finally:
        for command in commands:
            command.kill()
            command.wait()


def test_a_whole_group_ends_even_where_sessions_cannot_be_listed() -> None:
    """A group in the session of somebody else is not found by its session."""
    script = "sleep 60 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, process_group=0) as command:
        assert command.stdout is not None
        child = int(command.stdout.readline())
        try:
            with ended_watcher() as watcher:
                watcher.note(watcher.announce(None), command.pid)
            assert command.wait(timeout=20) == -signal.SIGTERM
            assert command.stdout.read() == b"", "the child has closed the output too"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            command.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the list of processes is in /proc")
def test_a_command_that_was_being_started_ends_even_if_its_leader_is_gone() -> None:
    """The processes that it has left are in its session, with its output or another one."""
    mine, theirs = os.pipe()
    output, other = os.pipe()
    script = f"sleep 60 & sleep 60 >&{other} & exit 0"
    try:
        subprocess.run(["sh", "-c", script], stdout=theirs, pass_fds=[other], start_new_session=True, check=True)
        os.close(other)
        with ended_watcher() as watcher:
            watcher.announce(theirs)
        os.close(theirs)
        for end in (mine, output):
            assert select.select([end], [], [], 20)[0], "nobody holds the other end any more"
            assert os.read(end, 1) == b""
    finally:
        os.close(mine)
        os.close(output)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the list of processes is in /proc")
def test_a_terminal_that_got_the_number_of_ours_is_left_alone() -> None:
    master, terminal = os.openpty()
    mine, theirs = os.pipe()
    with (
        subprocess.Popen(["sleep", "60"], stdout=terminal, start_new_session=True) as foreign,
        subprocess.Popen(["sleep", "60"], stdout=theirs, start_new_session=True) as command,
    ):
        try:
            with ended_watcher() as watcher:
                watcher.announce(terminal)
                watcher.announce(theirs)
            assert command.wait(timeout=20) == -signal.SIGTERM, "both were looked for"
            assert foreign.poll() is None
        finally:
            foreign.kill()
            command.kill()
            for descriptor in (master, terminal, mine, theirs):
                os.close(descriptor)


def reading(pipe: int) -> list[int]:
    """The processes that have a pipe as their stdin."""
    wanted, found = os.readlink(f"/proc/self/fd/{pipe}"), []  # noqa: PTH115  # it is no path
    for path in Path("/proc").glob("[0-9]*/fd/0"):
        with contextlib.suppress(OSError):
            if str(path.readlink()) == wanted:
                found.append(int(path.parts[2]))
    return found


def test_the_watcher_is_nobodys_child() -> None:
    watcher = Watcher()
    watcher.ensure()
    try:
        pids = reading(watcher._pipe)
        parents = [int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]) for pid in pids]
        assert len(pids) == 1
        assert os.getpid() not in parents
    finally:
        watcher._close()
