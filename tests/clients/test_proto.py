"""``proto``: ops and events as JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_client_proto import streams
from codex_client_proto.streams import LineReader, LineWriter
from codex_framework.testing import call, say


def op(submission: str, kind: str, **fields: Any) -> bytes:
    return json.dumps({"id": submission, "op": {"type": kind, **fields}}).encode() + b"\n"


def prompt(text: str, submission: str = "1") -> bytes:
    return op(submission, "user_input", items=[{"type": "text", "text": text}])


def events_of(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def types(events: list[dict[str, Any]], submission: str = "1") -> list[str]:
    return [event["msg"]["type"] for event in events if event["id"] == submission]


class Program:
    """A running ``proto``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.seen: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        for line in self.stdout:
            self.seen.append(json.loads(line))
            if self.seen[-1]["msg"]["type"] == kind:
                return self.seen[-1]
        raise AssertionError(f"no {kind} among {[event['msg'] for event in self.seen]}")

    def end(self) -> int:
        self.seen += events_of(self.stdout.read().decode())
        return self.process.wait(60)


@pytest.fixture
def start(cli: Any) -> Any:
    """Start ``proto`` with pipes."""

    @contextmanager
    def started(*words: str) -> Iterator[Program]:
        with cli.start("proto", *words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                yield Program(process)
            finally:
                process.kill()

    return started


def test_a_turn_runs_to_its_end_after_the_end_of_the_input(cli: Any) -> None:
    cli.serve(call("exec_command", cmd="pwd"), say("Hello.\u2028"))
    folder = cli.work / "inner"
    folder.mkdir()
    ran = cli.run("proto", "-C", "inner", "-c", "sandbox_mode=danger-full-access", stdin=prompt("Go."))
    events = events_of(ran.out)
    assert (ran.status, events[0]["msg"]["type"], events[-1]["msg"]["type"]) == (
        0,
        "session_configured",
        "shutdown_complete",
    )
    seen = types(events)
    assert [seen[0], seen[-1], seen.count("exec_command_end")] == ["task_started", "task_complete", 1]
    output = next(event["msg"] for event in events if event["msg"]["type"] == "exec_command_end")
    assert output["stdout"] == f"{folder}\n"
    assert events[-2]["msg"]["last_agent_message"] == "Hello.\u2028"
    assert "\u2028" not in ran.out


BAD_LINES: dict[bytes, tuple[str, str]] = {
    b"rubbish": ("", "Expecting value"),
    b"\xff\xfe\x00": ("", "decode"),
    b"[" * 200_000: ("", "recursion"),
    b"[]": ("", "it is not an object"),
    b"NaN": ("", "NaN is not a value of JSON"),
    b'{"op": {"type": "interrupt"}}': ("", "its `id` is not a string"),
    b'{"id": 5, "op": {"type": "interrupt"}}': ("", "its `id` is not a string"),
    b'{"id": "a"}': ("", "its `op` is not an object"),
    b'{"id": "b", "op": {"type": "no_such_op"}}': ("b", "unknown op 'no_such_op'"),
    b'{"id": "c", "op": {}}': ("c", "unknown op None"),
    b'{"id": "d", "op": {"type": "user_input", "items": 5}}': ("d", "items"),
    b'{"id": "e", "op": {"type": "interrupt"}, "trace": {"x": 1}}': ("e", "x"),
    b'{"id": "f", "op": {"type": "interrupt"}, "trace": 7}': ("f", "mapping"),
}


def test_bad_lines_are_answered_and_the_next_ones_are_handled(cli: Any) -> None:
    cli.serve(say("Hello."))
    ran = cli.run("proto", stdin=b"\n".join(BAD_LINES) + b"\n\n" + prompt("Go.", "z").strip())
    events = events_of(ran.out)
    errors = [(event["id"], event["msg"]) for event in events if event["msg"]["type"] == "error"]
    assert len(errors) == len(BAD_LINES)
    for (submission, msg), (wanted, words) in zip(errors, BAD_LINES.values(), strict=True):
        assert submission == wanted
        assert msg["message"].startswith("invalid submission: ")
        assert words in msg["message"]
        assert msg["codex_error_info"] == "bad_request"
    assert (ran.status, types(events, "z")[-1]) == (0, "task_complete")


def test_a_client_answers_and_may_end_the_thread(cli: Any, start: Any) -> None:
    cli.serve(call("exec_command", cmd="echo $((40 + 2))"), say("Done."))
    with start("-c", "approval_policy=untrusted", "-c", "sandbox_mode=danger-full-access") as program:
        program.write(prompt("Go."))
        asked = program.until("exec_approval_request")
        program.write(op("2", "exec_approval", id=asked["request_id"], decision="approved"))
        assert program.until("exec_command_end")["msg"]["stdout"] == "42\n"
        program.until("task_complete")
        program.write(op("3", "shutdown"))
        assert program.end() == 0
    assert program.seen[-1]["msg"]["type"] == "shutdown_complete"


def test_what_nobody_can_answer_any_longer_is_denied(cli: Any, start: Any) -> None:
    cli.serve(call("exec_command", cmd="touch made"), say("Done."))
    with start("-c", "approval_policy=untrusted", "-c", "sandbox_mode=danger-full-access") as program:
        program.write(prompt("Go."))
        program.until("exec_approval_request")
        program.stdin.close()
        assert program.end() == 0
    assert types(program.seen)[-1] == "task_complete"
    assert not (cli.work / "made").exists()


def test_an_interrupt_does_not_wait_behind_other_ops(cli: Any, start: Any) -> None:
    cli.serve(call("exec_command", cmd="sleep 600"), say("Never."))
    with start("-c", "sandbox_mode=danger-full-access") as program:
        program.write(prompt("Go."))
        program.until("exec_command_begin")
        program.write(op("2", "interrupt"))
        assert program.until("turn_aborted")["msg"]["reason"] == "interrupted"
        program.stdin.close()
        assert program.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_interrupts_the_turn_and_ends_the_thread(cli: Any, start: Any, number: int) -> None:
    cli.serve(call("exec_command", cmd="sleep 600"), say("Never."))
    with start("-c", "sandbox_mode=danger-full-access") as program:
        program.write(prompt("Go."))
        program.until("exec_command_begin")
        program.process.send_signal(number)
        assert program.end() == 128 + number
    assert types(program.seen)[-1] == "turn_aborted"
    assert program.seen[-1]["msg"]["type"] == "shutdown_complete"


def test_the_program_ends_when_nobody_reads_its_events(cli: Any, start: Any) -> None:
    cli.serve(call("exec_command", cmd="sleep 600"), say("Never."))
    with start("-c", "sandbox_mode=danger-full-access") as program:
        program.until("session_configured")
        program.stdout.close()
        program.write(prompt("Go."))
        assert program.process.wait(60) == 1


def test_nothing_but_events_is_on_stdout(cli: Any, tmp_path: Path) -> None:
    plugin = tmp_path / "loud.py"
    plugin.write_text("import os\nprint('loud')\nos.write(1, b'louder\\n')\nos.read(0, 100)\n")
    ran = cli.run("--plugin", str(plugin), "proto", stdin=op("1", "shutdown"))
    seen = [event["msg"]["type"] for event in events_of(ran.out)]
    assert [kind for kind in seen if kind != "warning"] == ["session_configured", "shutdown_complete"]
    assert "loud\n" in ran.err
    assert "louder\n" in ran.err


def test_a_terminal_is_no_input(cli: Any) -> None:
    ours, theirs = pty.openpty()
    try:
        with cli.start("proto", stdin=theirs) as process:
            out, err = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (process.returncode, out) == (1, b"")
    assert b"stdin is a terminal" in err


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def run(work: Callable[[int, int], Any]) -> None:
    async def limited() -> None:
        with pipe() as (source, sink):
            async with asyncio.timeout(60):
                await work(source, sink)

    asyncio.run(limited())


def test_a_client_that_does_not_read_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_ROOM", 10_000)

    async def work(source: int, sink: int) -> None:
        writer = LineWriter(sink)
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < 500:
                await writer.put(b"x" * 999)
                sent += 1

        sending = asyncio.ensure_future(send())
        before = -1
        while sent == 0 or sent != before:  # until the pipe is full, and what may wait as well
            before = sent
            await asyncio.wait((sending,), timeout=0.2)
        assert 0 < sent < 500
        data = b""
        while len(data) < 500_000:
            data += await asyncio.to_thread(os.read, source, 1 << 16)
        await sending
        await writer.end()
        assert data == (b"x" * 999 + b"\n") * 500

    run(work)


def test_lines_of_every_length_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 100_000)

    async def work(source: int, sink: int) -> None:
        with os.fdopen(os.dup(sink), "wb", buffering=0) as file:
            writing = asyncio.ensure_future(
                asyncio.to_thread(file.write, b"a\n\n \r\n" + b"y" * 60_000 + b"\n" + b"z" * 900_000 + b"\nb\nc")
            )
            found: list[bytes | None] = []
            reading = LineReader(source).lines()
            async for line in reading:
                found.append(line)
                if line == b"b":
                    break
            await writing
        assert found == [b"a", b"y" * 60_000, None, b"b"]

    run(work)
