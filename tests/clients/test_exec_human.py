from __future__ import annotations

import io
import os
import pty
import re
from pathlib import Path
from typing import Any

import pytest

from codex_framework.cli.human import HumanOutput
from codex_framework.contract.protocol.events import (
    AddFile,
    DeprecationNoticeEvent,
    EventMsg,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PatchApplyEndEvent,
    StreamErrorEvent,
    TurnAbortedEvent,
    ViewImageToolCallEvent,
    WarningEvent,
)
from codex_framework.testing.replies import call, custom_call, fault, reasoning, say
from codex_framework.toolkit.terminal_text import clean
from tests.clients.terminal import on_a_terminal


def test_the_final_message_stands_alone_on_stdout(cli: Any) -> None:
    cli.serve(say("Looking.") + call("exec_command", cmd="echo hi"), say("Done."))
    ran = cli.exec("hi")
    assert (ran.status, ran.out) == (0, "Done.\n")


def test_what_happens_stands_on_stderr(cli: Any) -> None:
    (cli.work / "a.txt").write_text("old\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n"
    cli.serve(
        reasoning("I think.") + call("exec_command", cmd="echo hi; exit 2"),
        custom_call("apply_patch", patch),
        say("Done."),
    )
    ran = cli.exec("-s", "workspace-write", "do it")
    lines = ran.err.splitlines()
    begin = lines.index("do it")
    assert lines[lines.index("--------") - 1].startswith("codex-framework v")
    for row in (f"workdir: {cli.work}", "model: gpt-5.5", "provider: loopback", "approval: never", "user"):
        assert row in lines
    shown = [line for line in lines[begin + 1 :] if not line.startswith((" exited", " succeeded"))]
    assert shown == [
        "I think.",
        "exec",
        f"/bin/bash -lc 'echo hi; exit 2' in {cli.work}",
        "hi",
        "apply patch",
        "patch: completed",
        str(cli.work / "a.txt"),
        "@@ -1 +1 @@",
        "-old",
        "+new",
        "codex",
        "Done.",
        "tokens used",
        "330",
    ]
    assert any(line.startswith(" exited 2 in ") for line in lines)


def test_an_error_is_shown_and_stdout_stays_empty(cli: Any) -> None:
    cli.serve(fault(status=400, body="bad"))
    ran = cli.exec("hi")
    assert (ran.status, ran.out) == (1, "")
    assert "ERROR: " in ran.err


def test_colours_come_when_asked_for_only(cli: Any) -> None:
    cli.serve(say("ok"), repeat_last=True)
    assert "\x1b[" not in cli.exec("hi").err
    assert "\x1b[" in cli.exec("--color", "always", "hi").err
    assert cli.exec("--color", "always", "hi").out == "ok\n"


def test_on_a_terminal_messages_are_shown_while_they_are_written(cli: Any) -> None:
    cli.serve(say("one two three", deltas=3))
    assert on_a_terminal(cli, "exec", "hi").count("one two three") == 1  # the person has read it: not printed again


def test_the_last_message_goes_into_a_file_as_it_is(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("Done."))
    target = tmp_path / "last.txt"
    assert cli.exec("-o", str(target), "hi").status == 0
    assert target.read_bytes() == b"Done."


def test_the_last_message_goes_where_the_file_was_when_the_run_began(cli: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (cli.work / "real.txt").touch()
    (cli.work / "other.txt").touch()
    (cli.work / "link.txt").symlink_to("other.txt")
    for name in ("new.txt", "real.txt", "link.txt"):
        cli.serve(call("exec_command", cmd=f"ln -sfn {victim} {name}", login=False), say("Done."))
        ran = cli.exec("-s", "workspace-write", "-o", str(cli.work / name), "hi")
        assert (ran.status, victim.read_text()) == (1, "kept")
        assert "it was exchanged for a symlink during the run" in ran.err
    (cli.work / "fine.txt").symlink_to(tmp_path / "mine.txt")  # the user's own link
    for target in (cli.work / "fine.txt", "/dev/stdout"):
        cli.serve(say("Done."))
        assert cli.exec("-o", str(target), "hi").out.startswith("Done.")
    assert (tmp_path / "mine.txt").read_text() == "Done."


def test_a_file_that_cannot_be_written_is_told(cli: Any) -> None:
    server = cli.serve(say("Done."))
    for target, reason in (("/no/such/folder/x", "No such file or directory"), (str(cli.work), "Is a directory")):
        ran = cli.exec("-o", target, "hi")
        assert (ran.status, ran.out) == (1, "")
        assert ran.err.startswith(f"Error: Failed to write last message file '{target}': {reason}\n")
    assert server.requests == []  # said before anything is paid for
    ran = cli.exec("-o", "/proc/self/x", "hi")
    assert (ran.status, ran.out) == (1, "Done.\n")
    assert (
        "Failed to write last message file '/proc/self/x': tools cannot access the system's files under /proc and /sys"
        in ran.err
    )


def test_nothing_commands_the_persons_terminal(cli: Any) -> None:
    evil = "\x1b]0;evil\x07"
    cli.serve(say(f"Look{evil}.") + call("exec_command", cmd="printf 'a\\033]0;evil\\007b\\n'"), say(f"Done{evil}."))
    ran = cli.exec("hi")
    assert "\x1b" not in ran.err
    assert "Look]0;evil." in ran.err
    assert ran.out == f"Done{evil}.\n"  # for programs: as it is


def test_nothing_that_an_event_names_commands_the_terminal_or_looks_like_another_line() -> None:
    evil = "a\x1b]0;evil\x07\r\x9b2Jb\npatch: completed"
    ended: dict[str, Any] = {"call_id": "c", "turn_id": "t", "cwd": evil, "command": ("ls", evil), "completed_at_ms": 0}
    output: dict[str, Any] = {
        "stdout": "",
        "stderr": evil,
        "aggregated_output": evil,
        "formatted_output": "",
        "exit_code": 1,
    }
    patch: dict[str, Any] = {
        "call_id": "c",
        "turn_id": "t",
        "stdout": "",
        "stderr": evil,
        "changes": {evil: AddFile(evil)},
    }
    messages: list[EventMsg] = [
        ViewImageToolCallEvent("c", evil),
        ExecCommandBeginEvent(call_id="c", turn_id="t", command=("ls", evil), cwd=evil, started_at_ms=0),
        ExecCommandEndEvent(**ended, **output, duration_s=0.0, status="declined"),
        ExecCommandEndEvent(**ended, **output, duration_s=0.0, status="failed"),
        PatchApplyEndEvent(**patch, success=False, status="failed"),
        PatchApplyEndEvent(**patch, success=True, status="completed"),
        DeprecationNoticeEvent(evil, evil),
        TurnAbortedEvent("t", evil),
        WarningEvent(evil),
        ItemStartedEvent("t", "t", {"type": "CollabAgentToolCall", "tool": evil}, 0),
        ItemCompletedEvent(
            "t", "t", {"type": "McpToolCall", "id": "1", "server": evil, "tool": evil, "status": evil}, 0
        ),
    ]
    for message in messages:
        for colour in (False, True):
            out = io.StringIO()
            HumanOutput(out, colour=colour).show(message)
            shown = re.sub(r"\x1b\[[\d;]+m", "", out.getvalue()) if colour else out.getvalue()
            assert "evil" in shown
            assert not set(shown) & {"\x1b", "\x07", "\r", "\x9b"}, message
    patched = PatchApplyEndEvent(**{**patch, "stderr": ""}, success=False, status="failed")
    for message in (messages[0], messages[1], patched):
        out = io.StringIO()
        HumanOutput(out).show(message)
        assert "patch: completed" not in out.getvalue().splitlines()


def test_the_banner_cannot_command_the_terminal(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.exec("-m", "gpt\x1b]0;evil\x07", "say \x1b]0;evil\x07")
    assert "model: gpt\\x1b]0;evil\\x07" in ran.err.splitlines()
    assert "say ]0;evil" in ran.err.splitlines()
    assert "\x1b" not in ran.err


def test_a_final_message_that_goes_to_a_terminal_cannot_command_it(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("Done\x1b]0;evil\x07."))
    master, slave = pty.openpty()
    with (tmp_path / "log").open("wb") as log:
        process = cli.start("exec", "--skip-git-repo-check", "hi", stdout=slave, stderr=log)
        assert process.wait(30) == 0
    os.close(slave)
    assert os.read(master, 65536).decode().strip() == "Done]0;evil."
    os.close(master)


def test_a_reader_that_leaves_ends_the_run_quietly(cli: Any) -> None:
    server = cli.serve(call("exec_command", cmd="true"), repeat_last=True)
    reading, writing = os.pipe()
    os.close(reading)
    process = cli.start("exec", "--json", "hi", stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert len(server.requests) < 2
    assert b"Traceback" not in err
    assert b"Exception" not in err


def test_a_failed_turn_has_no_final_message(cli: Any) -> None:
    cli.serve(say("Half.") + call("exec_command", cmd="true"), fault(status=400, body="bad"))
    ran = cli.exec("hi")
    assert (ran.status, ran.out) == (1, "")


def test_a_full_device_for_the_output_is_told(cli: Any) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    cli.serve(say("ok"), say("ok"))
    for argv in (["--json", "hi"], ["hi"]):
        with Path("/dev/full").open("wb") as full:
            process = cli.start("exec", *argv, stdout=full)
            _, err = process.communicate(timeout=30)
        assert process.returncode == 1
        assert b"Error: cannot write the output: No space left on device" in err
        assert b"Exception" not in err


@pytest.mark.parametrize("argv", [["--json"], []])
def test_a_full_device_for_the_output_does_not_cost_the_run(cli: Any, tmp_path: Path, argv: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    made, last = tmp_path / "made", tmp_path / "last"
    server = cli.serve(say("Working.") + call("exec_command", cmd=f"echo hi > '{made}'"), say("done"))
    with Path("/dev/full").open("wb") as full:
        process = cli.start("exec", *argv, "-s", "danger-full-access", "-o", str(last), "hi", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Error: cannot write the output: No space left on device" in err
    assert (made.read_text(), last.read_text()) == ("hi\n", "done")
    assert len(server.requests) == 2
    (rollout,) = cli.rollouts()
    assert "task_complete" in Path(rollout).read_text()


def test_a_full_device_for_progress_and_warnings_costs_nothing_else(cli: Any) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    cli.serve(call("exec_command", cmd="echo hi"), say("done"))
    with Path("/dev/full").open("wb") as full:
        process = cli.start("exec", "-s", "danger-full-access", "hi", stderr=full)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"done\n")
    assert len(cli.rollouts()) == 1


def test_closed_streams_do_no_harm(cli: Any) -> None:
    server = cli.serve(say("ok"), repeat_last=True)

    def close() -> None:
        for number in range(3):
            os.close(number)

    process = cli.start("exec", "hi", stdin=None, stdout=None, stderr=None, preexec_fn=close)
    assert process.wait(30) == 0
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "env", [{}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii:strict"}]
)
@pytest.mark.parametrize("text", ["fin\ud800", "\udfff", "\ude00\ud83d", "a\ud83d\ude00b\udc80"])
def test_a_message_with_half_a_surrogate_pair_costs_nothing(cli: Any, text: str, env: dict[str, str]) -> None:
    cli.serve(say(text), say(text))
    ran = cli.exec("-o", "o.txt", "hi", env={**cli.env, **env})
    assert (ran.status, "bug" in ran.err) == (0, False)
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert (cli.work / "o.txt").read_bytes() == expected.encode()
    assert cli.exec("--json", "hi", env={**cli.env, **env}).status == 0


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c", "\u2028"])
def test_no_text_of_others_is_shown_in_another_order(cli: Any, mark: str) -> None:
    cli.serve(say(f"a{mark}b"), fault(400, body={"error": {"message": f"a{mark}b"}}))
    assert (mark in cli.exec("hi").err, mark in cli.exec("hi").err) == (False, False)
    assert clean(f"\x1b[1ma{mark}\tb\n") == f"[1ma\\u{ord(mark):04x}\tb\n"


def test_the_reason_of_several_retries_is_shown_once() -> None:
    out = io.StringIO()
    human = HumanOutput(out)
    for number, wait in enumerate(["", "", "; the next attempt is in 4 s"], 1):
        human.show(StreamErrorEvent(f"Reconnecting... {number}/3", "other", f"Connection failed: no such host{wait}"))
    human.show(StreamErrorEvent("Reconnecting... 4/4", "other", "status 500"))
    human.show(WarningEvent("careful"))
    human.show(StreamErrorEvent("Reconnecting... 1/3", "other", "Connection failed: no such host"))
    assert out.getvalue().splitlines() == [
        "ERROR: Reconnecting... 1/3 (Connection failed: no such host)",
        "ERROR: Reconnecting... 2/3",
        "ERROR: Reconnecting... 3/3 (the next attempt is in 4 s)",
        "ERROR: Reconnecting... 4/4 (status 500)",
        "warning: careful",
        "ERROR: Reconnecting... 1/3 (Connection failed: no such host)",
    ]


@pytest.mark.parametrize(
    ("reason", "words"), [("interrupted", "interrupted"), ("budget_limited", "stopped by a limit"), ("odd", "odd")]
)
def test_the_end_of_an_aborted_turn_is_told_in_words(reason: str, words: str) -> None:
    out = io.StringIO()
    HumanOutput(out).show(TurnAbortedEvent("1", reason))
    assert out.getvalue() == f"turn {words}\n"
