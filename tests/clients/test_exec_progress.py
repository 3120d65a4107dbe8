"""Signs of life of exec: elapsed time on a terminal, heartbeats elsewhere, and whose the end of a command is."""

from __future__ import annotations

import asyncio
import io
import itertools
import re
import time
from typing import Any

import pytest

from codex_framework.cli.human import HumanOutput
from codex_framework.cli.progress import beat, duration, status
from codex_framework.contract.protocol.events import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ToolCallBeginEvent,
    WarningEvent,
)
from codex_framework.testing.replies import call, say
from tests.clients.terminal import on_a_terminal


@pytest.mark.thorough
def test_a_terminal_shows_how_long_a_command_runs_and_a_dumb_one_does_not(cli: Any) -> None:
    slow = call("exec_command", cmd="sleep 2.6; echo a-rather-long-line-of-output", login=False)
    cli.serve(slow, say("Done."), repeat_last=True)
    seen = on_a_terminal(cli, "exec", "--skip-git-repo-check", "hi", TERM="xterm")
    (shown, *_) = re.findall(r"\r\x1b\[K(\d+s [^\r]+)\r\x1b\[K", seen)
    assert re.fullmatch(r"[1-3]s /bin/\w*sh -c 'sleep 2.6; .*", shown)
    assert len(shown) < 40
    assert seen.endswith("codex\r\nDone.\r\ntokens used\r\n220\r\n")
    assert "\x1b[K" not in on_a_terminal(cli, "exec", "hi", TERM="dumb")


@pytest.mark.thorough
def test_json_has_a_heartbeat_where_it_is_asked_for(cli: Any) -> None:
    def replies() -> list[Any]:
        return [call("exec_command", cmd="sleep 0.7"), say("Done.").evolve(delay_s=0.7)]

    cli.serve(*replies())
    ran = cli.json("--heartbeat", "0.2", "hi")
    beats = [event for event in ran.events if event["type"] == "heartbeat"]
    (item,) = {event["item"]["id"] for event in ran.events if event["type"] == "item.started"}
    assert ran.status == 0
    assert {tuple(event["running"]) for event in beats} == {(item,), ()}
    elapsed = [event["elapsed_s"] for event in beats]
    assert elapsed == sorted(elapsed)
    assert beats[0] == {"type": "heartbeat", "elapsed_s": elapsed[0], "running": beats[0]["running"]}
    assert ran.types[-1] == "turn.completed"
    cli.serve(*replies())
    assert "heartbeat" not in cli.json("hi").types


@pytest.mark.thorough
def test_a_log_has_a_line_where_it_is_asked_for(cli: Any) -> None:
    cli.serve(call("exec_command", cmd="sleep 0.7"), say("Done.").evolve(delay_s=0.7))
    ran = cli.exec("--heartbeat=0.3", "hi")
    told = [line for line in ran.err.splitlines() if line.startswith("still working: ")]
    assert (ran.status, ran.out) == (0, "Done.\n")
    assert any("sleep 0.7" in line for line in told)
    assert "still working: 0s waiting for the model" in told


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_a_heartbeat_needs_seconds(cli: Any, value: str) -> None:
    ran = cli.exec(f"--heartbeat={value}", "hi")
    assert ran.status == 2
    assert f"invalid value '{value}' for '--heartbeat <SECONDS>'" in ran.err


def test_beats_come_after_silence_only_and_end_when_nobody_reads() -> None:
    async def main() -> None:
        told = [time.monotonic()]

        def tell() -> None:
            told.append(time.monotonic())
            if len(told) == 4:
                raise BrokenPipeError

        work = asyncio.ensure_future(beat(0.05, lambda: told[-1], tell))
        for _ in range(10):
            await asyncio.sleep(0.01)
            told[-1] = time.monotonic()
        assert len(told) == 1
        await asyncio.wait_for(work, 60)
        assert all(later - sooner >= 0.05 for sooner, later in itertools.pairwise(told))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.9, "0s"), (59.9, "59s"), (65, "1m05s"), (3599, "59m59s"), (3720, "1h02m")]
)
def test_durations_are_short(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_the_status_names_the_oldest_command_and_counts_the_others() -> None:
    now = time.monotonic()
    assert status({}, now - 3.5) == "3s waiting for the model"
    assert status({"a": (now - 61, "make\n  all")}, now) == "1m01s make all"
    running = {"b": (now - 5.5, "b"), "a": (now - 61, "make"), "c": (now, "c")}
    assert status(running, now) == "1m01s make and 2 more"


def begin(call_id: str) -> ExecCommandBeginEvent:
    return ExecCommandBeginEvent(call_id=call_id, turn_id="t", command=("run", call_id), cwd="/w", started_at_ms=0)


def end(call_id: str, exit_code: int = 0, text: str = "") -> ExecCommandEndEvent:
    return ExecCommandEndEvent(
        call_id=call_id,
        turn_id="t",
        command=("run", call_id),
        cwd="/w",
        completed_at_ms=0,
        stdout=text,
        stderr="",
        aggregated_output=text,
        exit_code=exit_code,
        duration_s=0.5,
        formatted_output="",
        status="failed" if exit_code else "completed",
    )


def shown(*events: Any) -> list[str]:
    out = io.StringIO()
    output = HumanOutput(out)
    for event in events:
        output.show(event)
    return out.getvalue().splitlines()


def test_the_end_of_a_command_says_whose_it_is_if_something_else_stands_above() -> None:
    assert shown(begin("a"), begin("b"), end("b", text="B"), end("a", 3, text="A")) == [
        "exec",
        "run a in /w",
        "exec",
        "run b in /w",
        " succeeded in 500ms:",
        "B",
        "run a",
        " exited 3 in 500ms:",
        "A",
    ]
    assert shown(begin("a"), end("a"), begin("b"), end("b")).count("run a") == 0
    assert shown(begin("a"), WarningEvent("Careful!"), end("a"))[-2:] == ["run a", " succeeded in 500ms:"]


def test_a_status_is_replaced_by_what_comes_next() -> None:
    out = io.StringIO()
    output = HumanOutput(out, live=True)
    output.show(ToolCallBeginEvent(call_id="1", turn_id="t", tool="dig", plugin="p", arguments="", started_at_ms=0))
    output.show_status()
    output.show(begin("a"))
    output.clear_status()
    assert out.getvalue() == "tool: p/dig started\n\r\x1b[K0s p/dig\r\x1b[Kexec\nrun a in /w\n"


def test_nothing_that_an_error_quotes_controls_the_terminal(cli: Any) -> None:
    ran = cli.run("sessions", "show", "gone\x1b]0;evil\x07\x9b31m\x7f")
    assert ran.status == 1
    assert "gone]0;evil31m" in ran.err
    assert not {*"\x1b\x07\x9b\x7f"} & {*ran.err}
