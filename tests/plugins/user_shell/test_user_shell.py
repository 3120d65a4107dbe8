"""Commands of a person: alone, beside a turn, interrupted, and on record."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from codex_framework import CommandResult, ModelInfo, Status
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ExecCommandOutputDeltaEvent,
)
from codex_framework.contract.protocol.items import message_text
from codex_framework.contract.protocol.ops import Interrupt
from codex_framework.testing import Offer, call, fault, say
from codex_plugin_compaction import Compact
from codex_plugin_user_shell import RunUserShellCommand
from codex_plugin_user_shell.report import record_of
from codex_plugin_user_shell.task import TIMEOUT_MS, UserShell

RECORD = re.compile(
    r"<user_shell_command>\n<command>\n(?P<command>.*)\n</command>\n<result>\n"
    r"Exit code: (?P<code>-?\d+)\nDuration: (?P<duration>\d+\.\d{4}) seconds\nOutput:\n(?P<output>.*)\n"
    r"</result>\n</user_shell_command>",
    re.S,
)
ABORTED = (
    "<user_shell_command>\n<command>\n{}\n</command>\n<result>\nExit code: -1\nDuration: 0.0000 seconds\nOutput:\n"
    "command aborted by user\n</result>\n</user_shell_command>"
)


def texts(thread) -> list[str]:
    return [message_text(item) for item in thread.history.items if item.type == "message"]


def records(items) -> list[tuple[str, str, str]]:
    """Command, exit code and output of the records among texts."""
    found = (RECORD.fullmatch(text) for text in items)
    return [(match["command"], match["code"], match["output"]) for match in found if match]


def sent(body) -> list[str]:
    return [part["text"] for item in body["input"] if item["type"] == "message" for part in item["content"]]


async def listened(thread, until) -> list:
    events = []
    async for event in thread.events():
        events.append(event)
        if until(event):
            return events
    return events


# Alone


def test_alone_it_is_a_turn_that_the_model_reads_of_in_the_next_one(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        events = await carry_out(thread, RunUserShellCommand("echo hello; echo oops >&2; exit 3"))
        await thread.run("What did I do?")
        return events, texts(thread)

    events, kept = scene.play(story, [say("You said hello.")])
    assert [event.type for event in events if not event.is_delta] == [
        "task_started",
        "item_started",
        "exec_command_begin",
        "item_completed",
        "exec_command_end",
        "task_complete",
    ]
    assert records(kept) == [("echo hello; echo oops >&2; exit 3", "3", "hello\noops\n")]
    (body,) = scene.asked
    said = sent(body)
    assert records(said[:1]) == [("echo hello; echo oops >&2; exit 3", "3", "hello\noops\n")]
    assert any(text.startswith("<environment_context>") for text in said[1:]), "the first turn still has its context"
    assert said[-1] == "What did I do?"


def test_what_the_user_leaves_in_the_background_continues(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        events = await carry_out(thread, RunUserShellCommand("sleep 60 >/dev/null 2>&1 & echo $!"))
        (end,) = (event for event in events if isinstance(event, ExecCommandEndEvent))
        await asyncio.sleep(0.05)
        assert not Path(f"/proc/{int(end.stdout)}/stat").read_text().rpartition(")")[2].strip().startswith("Z")
        os.kill(int(end.stdout), signal.SIGKILL)

    scene.play(story, [])


def test_clients_are_told_of_the_command_as_of_any_other(scene, carry_out):
    async def story(kernel):
        return await carry_out(await kernel.start_thread(), RunUserShellCommand("ls /; ls /usr"))

    events = scene.play(story, [])
    (begin,) = (event for event in events if isinstance(event, ExecCommandBeginEvent))
    (end,) = (event for event in events if isinstance(event, ExecCommandEndEvent))
    output = b"".join(event.chunk for event in events if isinstance(event, ExecCommandOutputDeltaEvent))
    assert (begin.source, end.source) == ("user_shell", "user_shell")
    assert begin.command[1:] == ("-lc", "ls /; ls /usr")
    assert [action["type"] for action in begin.parsed_cmd] == ["list_files", "list_files"]
    assert begin.command[0].startswith("/")
    assert begin.cwd == str(scene.workspace)
    assert begin.turn_id == end.turn_id == events[0].turn_id
    assert (end.exit_code, end.status, end.aggregated_output, output) == (0, "completed", output.decode(), output)


def test_neither_policy_nor_sandbox_nor_approval_stands_in_its_way(scene, carry_out, tmp_path):
    outside = tmp_path / "outside"

    async def story(kernel):
        thread = await kernel.start_thread()
        events = await carry_out(thread, RunUserShellCommand(f"rm -rf {outside}; echo made > {outside}"))
        return [event.type for event in events if not event.is_delta]

    config = 'sandbox_mode="read-only"', 'approval_policy="untrusted"'
    assert scene.play(story, [], *config) == [
        "task_started",
        "item_started",
        "exec_command_begin",
        "item_completed",
        "exec_command_end",
        "task_complete",
    ]
    assert outside.read_text() == "made\n"


def test_an_interrupt_ends_it_and_the_record_says_so(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        begun = asyncio.ensure_future(listened(thread, lambda event: event.msg.type == "exec_command_output_delta"))
        await thread.submit(RunUserShellCommand("echo $$; exec sleep 60"))
        *_, delta = await begun
        await thread.submit(Interrupt())
        outcome = await thread.settled()
        return int(delta.msg.chunk), outcome, texts(thread)

    process, outcome, kept = scene.play(story, [])
    assert (outcome.status, outcome.reason) == (Status.INTERRUPTED, "interrupted")
    assert kept[0] == ABORTED.format("echo $$; exec sleep 60")
    assert kept[1].startswith("<turn_aborted>")
    assert len(kept) == 2
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_one_that_runs_out_of_time_is_killed(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        context = thread.conversation.context("user_shell")
        context.start_task(UserShell(timeout_ms=300), "echo begun; sleep 60")
        await thread.settled()
        return texts(thread)

    began = time.monotonic()
    assert records(scene.play(story, [])) == [
        ("echo begun; sleep 60", "124", "command timed out after 300 milliseconds\nbegun\n")
    ]
    assert time.monotonic() - began < 30
    assert TIMEOUT_MS == 60 * 60 * 1000


def test_one_after_the_other_both_are_on_record(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await carry_out(thread, RunUserShellCommand("cd /; echo one"))
        await carry_out(thread, RunUserShellCommand("pwd"))
        return texts(thread)

    assert records(scene.play(story, [])) == [
        ("cd /; echo one", "0", "one\n"),
        ("pwd", "0", f"{scene.workspace}\n"),
    ]


@pytest.mark.parametrize("op", [RunUserShellCommand("true"), Compact()])
def test_nobody_is_called_for_a_turn_that_the_agent_had_no_part_in(scene, carry_out, op):
    class Bell:
        name = "bell"

        def __init__(self):
            self.rung = []

        def notify(self, notification):
            self.rung.append(notification.last_assistant_message)

    bell = Bell()

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, op)

    scene.play(story, [say("Hello."), say("A greeting.")], plugins=[Offer(notifiers=[bell])])
    assert bell.rung == ["Hello."]


# Beside a turn


def test_beside_a_turn_it_belongs_to_it_and_the_next_request_shows_it(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        heard = asyncio.ensure_future(listened(thread, lambda event: event.msg.type == "task_complete"))
        running = asyncio.ensure_future(thread.run("Work."))
        await asyncio.to_thread(scene.server.wait_for, 1)
        submission = await thread.submit(RunUserShellCommand("echo hello"))
        result = await running
        return result, await heard, submission

    slow = call("exec_command", cmd="echo mine").evolve(delay_s=0.7)
    result, events, submission = scene.play(story, [slow, say("Done.")])
    assert (result.status, result.final_message) == (Status.COMPLETED, "Done.")
    begins = [event for event in events if isinstance(event.msg, ExecCommandBeginEvent)]
    assert [event.msg.source for event in begins] == ["user_shell", "unified_exec_startup"]
    assert len({event.id for event in begins}) == 1
    assert submission not in {event.id for event in events}
    assert [event.msg.type for event in events].count("task_started") == 1
    second = scene.asked[1]["input"]
    assert [item["type"] for item in second[-3:]] == ["function_call", "function_call_output", "message"]
    assert records(sent(scene.asked[1])[-1:]) == [("echo hello", "0", "hello\n")]


def test_one_that_outlives_its_turn_goes_on_and_is_told_in_the_next(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        running = asyncio.ensure_future(thread.run("Work."))
        await asyncio.to_thread(scene.server.wait_for, 1)
        await thread.submit(RunUserShellCommand("until test -e go; do sleep 0.02; done; echo late"))
        await running
        before = records(texts(thread))
        (scene.workspace / "go").touch()
        while not thread.conversation.deliveries:
            await asyncio.sleep(0.01)
        await thread.run("And?")
        return before

    replies = [say("Done.").evolve(delay_s=0.3), say("I see.")]
    assert scene.play(story, replies) == []
    assert [output for _, _, output in records(sent(scene.asked[1]))] == ["late\n"]
    assert sent(scene.asked[1])[-1] == "And?"


def test_an_interrupt_ends_both(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        running = asyncio.ensure_future(thread.run("Work."))
        await asyncio.to_thread(scene.server.wait_for, 1)
        begun = asyncio.ensure_future(listened(thread, lambda event: event.msg.type == "exec_command_begin"))
        await asyncio.sleep(0)
        await thread.submit(RunUserShellCommand("sleep 60"))
        await begun
        await thread.interrupt()
        outcome = (await running).outcome
        await thread.run("And?")
        return outcome

    outcome = scene.play(story, [fault(hang_s=30), say("Fine.")])
    assert outcome.status is Status.INTERRUPTED
    said = sent(scene.asked[1])
    assert ABORTED.format("sleep 60") in said
    assert sum(text.startswith("<turn_aborted>") for text in said) == 1


def test_what_no_turn_has_shown_yet_is_on_record_when_the_thread_ends(scene):
    async def first(kernel):
        thread = await kernel.start_thread()
        running = asyncio.ensure_future(thread.run("Work."))
        await asyncio.to_thread(scene.server.wait_for, 1)
        ended = asyncio.ensure_future(listened(thread, lambda event: event.msg.type == "exec_command_end"))
        await asyncio.sleep(0)
        await thread.submit(RunUserShellCommand("echo kept"))
        await ended
        await running
        return thread.id

    thread_id = scene.play(first, [say("Done.").evolve(delay_s=0.7)])

    async def second(kernel):
        await (await kernel.resume_thread(thread_id)).run("And?")

    scene.play(second, [say("I see.")])
    assert records(sent(scene.asked[0])) == [("echo kept", "0", "kept\n")]


def test_a_thread_that_ends_takes_its_commands_along(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        begun = asyncio.ensure_future(listened(thread, lambda event: event.msg.type == "exec_command_output_delta"))
        await thread.submit(RunUserShellCommand("echo $$; exec sleep 60"))
        *_, delta = await begun
        await thread.shutdown()
        return int(delta.msg.chunk)

    with pytest.raises(ProcessLookupError):
        os.kill(scene.play(story, []), 0)


# The record


MODEL = ModelInfo(slug="any", truncation=("bytes", 40))


def ended(output: str, **fields) -> CommandResult:
    usual = {"exit_code": 0, "total_bytes": len(output), "omitted_bytes": 0, "duration_s": 0.12345}
    return CommandResult(stdout=output, stderr="", output=output, **{**usual, **fields})


def test_the_record_is_written_as_in_codex():
    assert message_text(record_of("ls", ended("a\nb\n"), MODEL)) == (
        "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 0\nDuration: 0.1235 seconds\nOutput:\n"
        "a\nb\n\n</result>\n</user_shell_command>"
    )


def test_long_output_is_shortened_as_the_models_policy_says():
    _, _, output = records([message_text(record_of("ls", ended("line\n" * 20), MODEL))])[0]
    assert output == "Total output lines: 20\n\nline\nline\nline\nline\n…60 chars truncated…line\nline\nline\nline\n"


def test_output_of_which_a_part_was_never_kept_says_so():
    _, _, output = records([message_text(record_of("ls", ended("x" * 50, omitted_bytes=7_000_000), MODEL))])[0]
    assert output.startswith("... 7000000 bytes omitted ...\n\nxxx")


def test_it_is_recorded_in_the_session_file_and_read_back(scene, carry_out):
    async def first(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, RunUserShellCommand("echo hello"))
        return thread.id

    thread_id = scene.play(first, [say("Hello.")])
    lines = [json.loads(line)["payload"] for line in scene.rollout.read_text().splitlines()]
    (kept,) = (line for line in lines if line.get("role") == "user" and RECORD.fullmatch(line["content"][0]["text"]))
    assert kept["type"] == "message"

    async def second(kernel):
        thread = await kernel.resume_thread(thread_id)
        return texts(thread)

    assert records(scene.play(second, [])) == [("echo hello", "0", "hello\n")]


# Bad input


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("", "the command is empty. Write a command after the `!`."),
        (" \n", "the command is empty. Write a command after the `!`."),
        ("echo \0", "the command contains a NUL character. Remove it."),
        (
            7,
            "the op 'run_user_shell_command' is wrong: its `command` is 7, not str. Set the field to a value of this class.",
        ),
    ],
)
def test_what_is_no_command_is_refused(scene, carry_out, command, fact):
    async def story(kernel):
        return await carry_out(await kernel.start_thread(), RunUserShellCommand(command))

    (refusal,) = scene.play(story, [])
    assert isinstance(refusal, ErrorEvent)
    assert refusal.message == fact


def test_an_op_with_a_wrong_field_cannot_be_made(scene):
    from codex_framework import ThreadError

    async def story(kernel):
        with pytest.raises(ThreadError, match="run_user_shell_command"):
            kernel.op("run_user_shell_command", command=["ls"])
        with pytest.raises(ThreadError, match="run_user_shell_command"):
            kernel.op("run_user_shell_command")
        return kernel.op("run_user_shell_command", command="ls")

    assert scene.play(story, []) == RunUserShellCommand("ls")


def test_a_command_that_cannot_be_started_is_shown_and_recorded(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        scene.workspace.rmdir()
        events = await carry_out(thread, RunUserShellCommand("ls"))
        return events, texts(thread)

    events, kept = scene.play(story, [])
    (end,) = (event for event in events if isinstance(event, ExecCommandEndEvent))
    assert (end.exit_code, end.status, end.source) == (-1, "failed", "user_shell")
    ((_, code, output),) = records(kept)
    assert (code, output) == ("-1", end.aggregated_output)
    assert output.startswith("execution error: ")
    assert events[-1].type == "task_complete"


@pytest.mark.parametrize("command", ["printf '\\377\\376'", "echo '\udcff'", "x" * 300_000])
def test_odd_commands_and_output_do_no_harm(scene, carry_out, command):
    async def story(kernel):
        thread = await kernel.start_thread()
        events = await carry_out(thread, RunUserShellCommand(command))
        await thread.run("And?")
        return events[-1].type

    assert scene.play(story, [say("Fine.")]) == "task_complete"
    assert len(records(sent(scene.asked[0]))) == 1
