"""Signals, terminals, limits and ends of real commands."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from codex_contrib_bubblewrap.limits import counts_by_namespace
from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
from codex_contrib_bubblewrap.settings import BubblewrapSettings
from codex_framework import CommandFailed, FileAccess, Launch, SandboxError
from codex_framework.commands.process.running import start_command
from codex_framework.contract.permissions.file_access import ResourceLimits
from codex_framework.testing import access_of, run_confined


def used(program: str, access: FileAccess, work: Path, use: Callable[[Any], Awaitable[Any]]) -> Any:
    async def do() -> Any:
        sandbox = BubblewrapSandbox(BubblewrapSettings(path=program))
        try:
            return await use(sandbox.confine(access, work))
        finally:
            await sandbox.aclose()

    return asyncio.run(do())


ENV = {"PATH": os.environ["PATH"]}


def test_a_signal_reaches_the_command_and_what_it_has_started_and_can_be_caught(program, place):
    # The end of the command ends its PID namespace, and with it a child that has not said its word yet: so it waits for the child.
    script = "trap 'echo caught; wait; exit 5' TERM; (trap 'echo child; exit' TERM; echo ready; while :; do sleep 0.1; done) & wait"

    async def use(plan: Any) -> tuple[int, str]:
        command = await start_command(plan, argv=("/bin/sh", "-c", script), cwd=str(place), env=ENV)
        while "ready" not in command.take().text:
            await asyncio.sleep(0.01)
        os.killpg(command.process_id, signal.SIGTERM)
        ended = await command.wait()
        return ended.exit_code, ended.output

    status, said = used(program, FileAccess(), place, use)
    assert status == 5
    assert {"caught", "child"} <= set(said.split())


def test_control_c_on_a_terminal_reaches_the_command_and_not_bubblewrap(program, place):
    script = "trap 'echo caught' INT; echo ready; until read line; do :; done; echo \"got $line\"; tty -s && echo terminal; exit 4"

    async def use(plan: Any) -> tuple[int, str]:
        command = await start_command(plan, argv=("/bin/sh", "-c", script), cwd=str(place), env=ENV, tty=True)
        said = ""
        for wanted, typed in (("ready", b"\x03"), ("caught", b"x\n")):
            async with asyncio.timeout(20):
                while wanted not in said:
                    said += command.take().text
                    await asyncio.sleep(0.01)
            await command.write(typed)
        ended = await command.wait()
        return ended.exit_code, said + ended.output

    status, said = used(program, FileAccess(), place, use)
    assert status == 4, said
    assert "terminal" in said


def test_killing_a_command_on_a_terminal_ends_all_of_it(program, place):
    async def use(plan: Any) -> int:
        argv = ("/bin/sh", "-c", "setsid sleep 60 & echo ready; sleep 60")
        command = await start_command(plan, argv=argv, cwd=str(place), env=ENV, tty=True)
        while "ready" not in command.take().text:
            await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            await command.kill()
            return (await command.wait()).exit_code

    assert used(program, FileAccess(), place, use) in (128 + signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGHUP)


def test_what_the_environment_says_changes_nothing_in_bubblewrap_itself(run, place):
    (place / "work" / "evil.so").write_text("no library\n")
    env = {"LD_PRELOAD": str(place / "work" / "evil.so"), "LD_LIBRARY_PATH": "/nowhere", "BWRAP": "x", "LINES_": "a\nb"}
    ended = run(FileAccess(), 'echo "$LD_LIBRARY_PATH $LINES_"', env=env)
    assert ended.status == 0
    assert ended.output.endswith("/nowhere a\nb\n")
    assert "ld.so" in ended.output  # it is the command's own loader that complains


def test_a_script_without_its_interpreter_is_a_command_that_failed(run, place):
    script = place / "work" / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(CommandFailed, match="cannot be executed in the sandbox"):
        run(FileAccess(), (str(script),))


def test_what_cannot_be_encoded_is_a_command_that_failed(run):
    for argv, env in (
        (("echo", "\udfff\ud800"), {}),
        (("echo", "\0"), {}),
        (("true",), {"A=B": "c"}),
        (("true",), {"": "c"}),
    ):
        with pytest.raises(CommandFailed):
            run(FileAccess(), argv, env=env)


def test_limits_are_put_on_a_command(run, place):
    limits = ResourceLimits(memory_bytes=256 << 20, file_bytes=1 << 20)
    access = FileAccess.writing(place / "work").evolve(limits=limits)
    ended = run(access, "ulimit -v; ulimit -f; ulimit -c; ulimit -v unlimited || echo kept")
    assert ended.output.split("\n")[:3] == [str(256 << 10), str(2 << 10), "0"]
    assert "kept" in ended.output


def test_processes_of_one_sandbox_are_counted(program, place):
    if os.geteuid() == 0 or not counts_by_namespace():
        pytest.skip("the machine's root is never counted, and Linux before 5.14 does not count by namespace")
    limits = ResourceLimits(processes=20)

    async def use(plan: Any) -> str:
        script = "for i in $(seq 40); do sleep 1 & done; echo all"
        return (await run_confined(plan, ("/bin/sh", "-c", script), place)).output

    assert "all" not in used(program, access_of({}, limits=limits), place, use)


def test_a_sandbox_that_cannot_be_set_up_is_told_before_anything_runs(program, place):
    folder = place / "work" / "shown"
    folder.mkdir()

    async def use(plan: Any) -> None:
        import codex_contrib_bubblewrap.launching as launching
        from codex_contrib_bubblewrap.layout import Kind, Layout, Mount

        real = launching.layout_of
        launching.layout_of = lambda access: Layout(real(access).root, (Mount(str(place / "gone"), Kind.READABLE),))
        try:
            with pytest.raises(SandboxError, match="could not set up the sandbox: Can't find source path"):
                await run_confined(plan, ("/bin/sh", "-c", f"touch {folder}/ran"), place)
        finally:
            launching.layout_of = real

    used(program, access_of({place / "work": "write"}), place, use)
    assert list(folder.iterdir()) == []


def test_a_cancelled_start_leaves_nothing(program, place):
    async def use(plan: Any) -> None:
        for pause in (0.0, 0.002, 0.004):
            reader, writer = os.pipe()
            null = os.open(os.devnull, os.O_RDONLY)
            launch = Launch(argv=("sleep", "60"), cwd=str(place), env=ENV, stdin=null, stdout=writer, stderr=writer)
            starting = asyncio.ensure_future(plan.start(launch))
            await asyncio.sleep(pause)
            starting.cancel()
            results = await asyncio.gather(starting, return_exceptions=True)
            os.close(writer)
            os.close(null)
            for child in results:
                if not isinstance(child, BaseException):
                    child.signal(signal.SIGKILL)
            with os.fdopen(reader, "rb") as stream:
                async with asyncio.timeout(20):
                    assert await asyncio.to_thread(stream.read) == b""  # nobody holds the other end any more

    used(program, FileAccess(), place, use)
