from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from codex_framework.commands.process import spawn
from codex_framework.commands.process.running import Command, start_command
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.commands.process.watcher import WATCHER
from codex_framework.contract.errors import CommandFailed, ToolError
from codex_framework.contract.roles.commands import CommandResult, OutputChunk, OutputWindow
from codex_framework.contract.roles.sandboxes import ChildProcess, Launch

T = TypeVar("T")

ENV = {"PATH": os.environ["PATH"], "HOME": "/"}


def script(text: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", text)


async def start(*argv: str, **options: Any) -> Command:
    return await start_command(Unconfined(), argv=argv, cwd="/", env=ENV, **options)


def result(*argv: str, **options: Any) -> CommandResult:
    async def main() -> CommandResult:
        return await (await start(*argv, **options)).wait()

    return asyncio.run(main())


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(main)


def ends(pid: int) -> bool:
    """Whether a process that was sent SIGKILL is gone (or waits for a parent that does not look)."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(scope="module", autouse=True)
def watcher() -> None:
    """Start what the first command starts, so that it does not count among the descriptors of a test."""
    WATCHER.ensure()


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def first_number(command: Command) -> int:
    async for chunk in command.chunks():
        return int(chunk.data)
    raise AssertionError("it ended without a word")


def test_both_streams_are_kept_apart_and_together() -> None:
    ended = result(*script("echo out; sleep 0.1; echo err >&2; sleep 0.1; echo out2; exit 3"))
    assert ended.evolve(duration_s=0.0) == CommandResult(
        exit_code=3,
        stdout="out\nout2\n",
        stderr="err\n",
        output="out\nerr\nout2\n",
        total_bytes=13,
        omitted_bytes=0,
        duration_s=0.0,
    )
    assert ended.duration_s > 0.2


@pytest.mark.parametrize(
    ("text", "code"),
    [("true", 0), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)],
)
def test_the_exit_code_is_the_status_or_128_and_the_signal(text: str, code: int) -> None:
    assert result(*script(text)).exit_code == code


def test_a_command_leads_its_own_session_without_a_terminal_and_gets_only_the_given_environment(tmp_path: Path) -> None:
    async def main() -> None:
        text = "test -t 0 || echo no-tty; cat; pwd; env | sort; (exec < /dev/tty) 2>/dev/null || echo no-ctty; ps -o sid= $$"
        env = {"PATH": os.environ["PATH"], "A": "é\n"}
        command = await start_command(Unconfined(), argv=script(text), cwd=str(tmp_path), env=env)
        output = (await command.wait()).output
        lines = output.split("\n")
        assert lines[:3] == ["no-tty", str(tmp_path), ""]
        assert "A=é" in lines
        assert not any(line.startswith("HOME=") for line in lines)
        assert lines[-3:] == ["no-ctty", str(command.process_id).rjust(len(lines[-2])), ""]

    run(main())


def test_a_terminal_is_the_commands_own_and_has_24_by_80() -> None:
    ended = result(*script("tty < /dev/tty; stty size; test -t 2 && echo all"), tty=True)
    assert re.fullmatch(r"/dev/\S+\r\n24 80\r\nall\r\n", ended.output)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, ended.output, "")


@pytest.mark.parametrize("size", [0, 10, 65_536, 65_537, 5_000_000])
def test_stdin_is_fed_whole_and_then_closed(size: int) -> None:
    assert result("wc", "-c", stdin=b"x" * size).output.strip() == str(size)


def test_a_command_that_does_not_read_its_stdin_is_no_problem() -> None:
    assert result("true", stdin=b"x" * 5_000_000).exit_code == 0


def test_stdin_can_stay_open_for_more() -> None:
    async def main() -> None:
        command = await start("cat", stdin=b"a", keep_stdin_open=True)
        await command.write(b"b" * 200_000)
        await command.close_stdin()
        assert (await command.wait()).total_bytes == 200_001
        with pytest.raises(ToolError, match="stdin is closed"):
            await command.write(b"c")

    run(main())


def test_a_terminal_can_be_typed_into() -> None:
    async def main() -> None:
        command = await start(*script("read a; echo got:$a"), tty=True)
        await command.write("é\n".encode())
        assert (await command.wait()).output == "é\r\ngot:é\r\n"

    run(main())


def test_writing_to_a_program_that_never_reads_ends_when_it_does() -> None:
    async def main() -> None:
        command = await start(*script("stty raw -echo; echo ready; sleep 60"), tty=True)
        async for _ in command.chunks():
            break
        writing = asyncio.create_task(command.write(b"x" * 1_000_000))
        await asyncio.sleep(0.05)
        assert not writing.done()
        await command.kill()
        with pytest.raises(ToolError, match="stdin is closed"):
            await writing

    run(main())


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize(
    ("argv", "cwd", "fact"),
    [
        (("/no/such/program",), "/", "No such file or directory (os error 2)"),
        (("no-such-program",), "/", "No such file or directory (os error 2)"),
        (("true",), "/no/such/folder", "No such file or directory (os error 2)"),
        (("true",), "/etc/passwd", "Not a directory (os error 20)"),
    ],
)
def test_what_cannot_be_started_is_told_in_the_systems_words(
    tty: bool, argv: tuple[str, ...], cwd: str, fact: str
) -> None:
    before = open_descriptors()
    with pytest.raises(CommandFailed) as caught:
        run(start_command(Unconfined(), argv=argv, cwd=cwd, env=ENV, tty=tty))
    assert caught.value.fact == fact
    assert caught.value.hint
    assert open_descriptors() == before


def test_an_empty_command_is_told() -> None:
    with pytest.raises(CommandFailed, match=r"^the command is empty$"):
        result()


def test_arguments_that_no_program_can_get_are_told() -> None:
    with pytest.raises(CommandFailed, match=r"^nul byte found in provided data$"):
        result("echo", "a\0b")
    with pytest.raises(CommandFailed, match=r"^an argument cannot be encoded"):
        result("echo", "\ud800")
    with pytest.raises(CommandFailed, match=r"^Argument list too long \(os error 7\)$"):
        result("/bin/true", "x" * 10_000_000)


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("#!/bin/sh\n")
    with pytest.raises(CommandFailed, match=r"^Permission denied \(os error 13\)$"):
        result(str(tmp_path / "x"))


def test_a_command_that_runs_out_of_time_is_killed_with_its_descendants() -> None:
    async def main() -> tuple[CommandResult, int]:
        command = await start(*script("sleep 60 & echo $!; trap '' TERM; sleep 60"), timeout_ms=300)
        child = await first_number(command)
        return await command.wait(), child

    ended, child = run(main())
    assert (ended.exit_code, ended.timed_out, ended.output) == (124, True, f"{child}\n")
    assert ends(child)


@pytest.mark.parametrize(
    ("start_it", "leave_group", "goes_on"),
    [
        ("sleep 60 >/dev/null 2>&1 &", False, False),
        ("trap '' TERM HUP; nohup sleep 60 >/dev/null 2>&1 &", False, False),
        ("setsid sleep 60 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do sleep 0.01; done;", False, True),
        ("sleep 60 >/dev/null 2>&1 &", True, True),
    ],
)
def test_what_a_command_leaves_in_its_group_ends_with_it(start_it: str, leave_group: bool, goes_on: bool) -> None:
    async def main() -> tuple[CommandResult, int]:
        command = await start(*script(f"{start_it} echo $!"), leave_group=leave_group)
        ended = await command.wait()
        return ended, int(ended.output)

    ended, child = run(main())
    assert ended.exit_code == 0
    if goes_on:
        time.sleep(0.05)
        assert not Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].strip().startswith("Z")
        os.kill(child, signal.SIGKILL)
    assert ends(child)


def test_a_group_whose_leader_lives_is_left_alone() -> None:
    """The id of an ended command may be that of another process by then."""

    async def main() -> None:
        command = await start("sleep", "60")
        command._child.end_group()
        await asyncio.sleep(0.05)
        assert command.exit_code is None
        await command.kill()

    run(main())


def test_what_is_killed_may_clean_up_although_its_leader_has_ended(tmp_path: Path) -> None:
    async def main() -> None:
        child = "exec >/dev/null 2>&1; trap 'sleep 0.1; : >cleaned; exit' TERM; : >ready; while :; do sleep 0.02; done"
        command = await start(*script(f"cd {tmp_path}; ({child}) & wait"), grace_s=10.0)
        while not (tmp_path / "ready").exists():
            await asyncio.sleep(0.01)
        await command.kill()

    run(main())
    assert (tmp_path / "cleaned").exists()


def test_what_a_command_leaves_may_write_until_its_output_has_been_read() -> None:
    async def main() -> CommandResult:
        return await (await start(*script("(sleep 0.1; echo late) & echo early"))).wait()

    assert run(main()).output == "early\nlate\n"


def test_killing_ends_the_whole_group_even_those_who_ignore_sigterm() -> None:
    async def main() -> tuple[CommandResult, int]:
        command = await start(*script("(trap '' TERM; echo ready; exec sleep 60) & wait"), drain_ms=60_000)
        async for _ in command.chunks():
            break
        survivor = int(Path(f"/proc/{command.process_id}/task/{command.process_id}/children").read_text().split()[0])
        await command.kill()
        await command.kill()
        return await command.wait(), survivor

    ended, survivor = run(main())
    assert ended.exit_code == 143
    assert ends(survivor)


def test_killing_a_terminal_ends_the_jobs_of_its_shell_too() -> None:
    async def main() -> int:
        env = {**ENV, "PS1": ""}
        argv = ("/bin/bash", "--norc", "--noprofile", "-i")
        command = await start_command(Unconfined(), argv=argv, cwd="/", env=env, tty=True)
        await command.write(b"stty -echo; (trap '' TERM HUP; exec sleep 60) & echo job=$!.\n")
        seen = b""
        async for chunk in command.chunks():
            seen += chunk.data
            if found := re.search(rb"job=(\d+)\.", seen):
                break
        assert found
        await command.kill()
        return int(found[1])

    assert ends(run(main()))


def test_killing_ends_when_the_end_has_been_reported() -> None:
    reported: list[int] = []

    async def report(result: CommandResult) -> CommandResult:
        await asyncio.sleep(0.05)
        reported.append(result.exit_code)
        return result.evolve(denied=True)

    async def main() -> CommandResult:
        command = await start("sleep", "60", report=report)
        await command.kill()
        assert len(reported) == 1
        await command.kill()
        return await command.wait()

    assert run(main()).denied
    assert len(reported) == 1


def test_a_report_that_fails_is_told_to_everybody_who_waits() -> None:
    async def report(_: CommandResult) -> CommandResult:
        raise ToolError("no report")

    async def main() -> None:
        command = await start("true", report=report)
        for _ in range(2):
            with pytest.raises(ToolError, match="no report"):
                await command.wait()

    run(main())


def test_killing_goes_on_when_the_wait_for_it_is_cancelled() -> None:
    async def main() -> int:
        command = await start(*script("trap '' TERM; echo ready; sleep 60"))
        async for _ in command.chunks():
            break
        killing = asyncio.create_task(command.kill())
        await asyncio.sleep(0)
        killing.cancel()
        return (await command.wait()).exit_code

    assert run(main()) == 137


def test_an_interrupt_reaches_the_group() -> None:
    async def main() -> int:
        command = await start(*script("trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done"))
        async for _ in command.chunks():
            break
        command.interrupt()
        code = (await command.wait()).exit_code
        command.interrupt()
        return code

    assert run(main()) == 7


def test_output_of_descendants_is_awaited_for_a_moment_only() -> None:
    ended = result(*script("(sleep 0.2; echo late; sleep 2; echo too-late) & echo early"), drain_ms=700)
    assert ended.output == "early\nlate\n"


def test_nothing_outlives_the_event_loop() -> None:
    async def main() -> int:
        return (await start("sleep", "60")).process_id

    before = open_descriptors()
    assert ends(run(main()))
    assert open_descriptors() == before


def test_huge_output_is_drained_and_capped() -> None:
    size = 50_000_000
    ended = result("head", "-c", str(size), "/dev/zero")
    assert (ended.exit_code, ended.total_bytes, ended.omitted_bytes) == (0, size, size - (1 << 20))
    half = "\0" * (1 << 19)
    assert ended.stdout == half * 2
    assert ended.output == f"{half}\n... {size - (1 << 20)} bytes omitted ...\n{half}"


def test_an_unread_command_is_never_held_up() -> None:
    async def main() -> int:
        command = await start(*script("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2"))
        chunks = command.chunks()
        ended = await command.wait()
        kept = [len(chunk.data) async for chunk in chunks]
        assert sum(kept) <= 2 << 20
        return ended.total_bytes

    assert run(main()) == 10_000_000


def test_the_event_loop_goes_on_while_a_command_floods_us() -> None:
    async def main() -> int:
        command = await start(*script("yes"))
        ticks = 0
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            await asyncio.sleep(0.001)
            ticks += 1
        await command.kill()
        return ticks

    assert run(main()) > 10


def test_chunks_are_small_and_limited_in_number_for_listeners() -> None:
    def listen(count: int) -> tuple[list[OutputChunk], CommandResult]:
        seen: list[OutputChunk] = []
        return seen, result("head", "-c", str(count), "/dev/zero", on_chunk=seen.append)

    seen, _ = listen(100_000)
    assert sum(len(chunk.data) for chunk in seen) == 100_000
    assert {chunk.stream for chunk in seen} == {"stdout"}
    assert max(len(chunk.data) for chunk in seen) == 8192
    many, ended = listen(8192 * 10_500)
    assert len(many) == 10_000
    assert ended.total_bytes == 8192 * 10_500


def test_windows_hold_no_half_word_if_words_are_kept_whole_but_only_once() -> None:
    async def main() -> list[str]:
        command = await start(
            *script("printf 'one S3C'; read x; printf RET; read x; printf ' [y/n]'; read x"),
            keep_stdin_open=True,
            whole_words=True,
        )
        chunks = command.chunks()
        texts = []
        for _ in range(3):
            await anext(chunks)
            texts.append(command.take().text)
            await command.write(b"\n") if len(texts) < 3 else None
        texts.append(command.take().text)  # nothing came since
        await command.write(b"\n")
        await command.wait()
        return [*texts, command.take().text]

    assert asyncio.run(main()) == ["one ", "", "S3CRET ", "[y/n]", ""]


def test_windows_hold_what_is_new_and_never_half_a_character() -> None:
    async def main() -> list[OutputWindow]:
        command = await start(*script("printf 'a\\303'; read x; printf '\\251b\\303'"), keep_stdin_open=True)
        async for _ in command.chunks():
            break
        first = command.take()
        await command.write(b"\n")
        await command.wait()
        return [first, command.take(), command.take()]

    assert run(main()) == [
        OutputWindow(text="a", total_bytes=1),
        OutputWindow(text="éb\ufffd", total_bytes=4),
        OutputWindow(text="", total_bytes=0),
    ]


def child_processes() -> set[str]:
    """The pids of the children of this process, those that nobody has waited for included."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def test_two_hundred_commands_run_at_once_without_leaking() -> None:
    async def main() -> set[tuple[int, str]]:
        commands = [await start(*script(f"echo {number}; exit {number % 7}")) for number in range(200)]
        results = [await command.wait() for command in commands]
        return {(ended.exit_code, ended.output) for ended in results}

    before, children = open_descriptors(), child_processes()
    assert run(main()) == {(number % 7, f"{number}\n") for number in range(200)}
    assert open_descriptors() == before
    assert child_processes() <= children


def test_without_a_pidfd_a_thread_notices_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert result(*script("echo hi; exit 5")).exit_code == 5
    assert result("sleep", "60", timeout_ms=100).exit_code == 124


class Marked:
    """A confinement of one's own."""

    @property
    def env(self) -> dict[str, str]:
        return {"CODEX_SANDBOX": "marked"}

    async def start(self, launch: Launch) -> ChildProcess:
        return await Unconfined().start(launch.evolve(argv=("env", "WRAPPED=1", *launch.argv)))


def test_a_confinement_wraps_the_command_and_marks_its_environment() -> None:
    async def main() -> CommandResult:
        command = await start_command(Marked(), argv=script("echo $CODEX_SANDBOX $WRAPPED"), cwd="/", env=ENV)
        return await command.wait()

    assert run(main()).output == "marked 1\n"


def test_the_status_of_a_child_is_the_same_each_time() -> None:
    async def main() -> list[int]:
        null = os.open(os.devnull, os.O_RDWR)
        try:
            launch = Launch(argv=script("kill -KILL $$"), cwd="/", env=ENV, stdin=null, stdout=null, stderr=null)
            child = await Unconfined().start(launch)
        finally:
            os.close(null)
        both = list(await asyncio.gather(child.wait(), child.wait()))
        child.signal(signal.SIGTERM)
        return [*both, await child.wait()]

    assert run(main()) == [-9, -9, -9]


def test_a_group_that_is_gone_is_no_error() -> None:
    assert spawn.signal_group(2**22 - 7, 0) is False


@pytest.mark.skipif(sys.platform != "linux", reason="sizes of pipes can be read on Linux only")
@pytest.mark.parametrize(("amount", "size"), [(10, 1 << 16), (1_000_000, 1 << 18)])
def test_a_pipe_is_enlarged_once_it_has_been_full(amount: int, size: int) -> None:
    import fcntl
    import termios

    async def main() -> int:
        command = await start(*script(f"head -c {amount} /dev/zero; sleep 60"))
        (output,) = (fd for fd, stream in command._sources.items() if stream == "stdout")
        waiting = bytearray(4)
        while int.from_bytes(waiting, sys.byteorder) < min(amount, 1 << 16):  # nothing is read meanwhile
            time.sleep(0.001)  # noqa: ASYNC251
            fcntl.ioctl(output, termios.FIONREAD, waiting)
        while command._all.total < amount:
            await asyncio.sleep(0.001)
        found = fcntl.fcntl(output, fcntl.F_GETPIPE_SZ)
        await command.kill()
        return found

    assert run(main()) == size
