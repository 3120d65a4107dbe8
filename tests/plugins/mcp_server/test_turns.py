"""What a client sees of a turn: events, approvals, errors, cancellation, and the end of the process."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from codex_framework.testing import call, say

UNTRUSTED = {"prompt": "go", "approval-policy": "untrusted", "sandbox": "workspace-write"}


def test_every_event_is_a_notification(home, raw, play) -> None:
    home.serve(say("hello"))

    async def story() -> None:
        async with raw() as client:
            number = await client.call("codex", prompt="hi")
            result = await client.result(number)
            thread_id = result["structuredContent"]["threadId"]
            assert result["content"] == [{"type": "text", "text": "hello"}]
            kinds = [event["msg"]["type"] for event in client.events()]
            assert kinds[0] == "session_configured"
            assert kinds[-1] == "task_complete"
            assert "agent_message" in kinds
            assert all(event["_meta"] == {"requestId": number, "threadId": thread_id} for event in client.events())
            (end,) = client.events("task_complete")
            assert end["id"] == end["msg"]["turn_id"]

    play(story())


@pytest.mark.parametrize(
    ("answer", "made"),
    [
        ({"decision": "approved"}, True),
        ({"action": "accept", "content": {"decision": "approved"}}, True),
        ({"decision": "denied"}, False),
        ({"action": "decline"}, False),
        ({"action": "decline", "decision": "approved"}, False),
        ({"action": "accept"}, False),
        ({"action": "accept", "content": {"decision": "yes"}}, False),
        ({"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["rm"]}}}, False),
        ({}, False),
    ],
)
def test_the_answers_to_an_approval(home, raw, play, answer, made) -> None:
    model = home.serve(call("exec_command", cmd="touch made"), say("done"))

    async def story() -> None:
        async with raw() as client:
            number = await client.call("codex", **UNTRUSTED)
            question = await client.question()
            params = question["params"]
            assert params["codex_elicitation"] == "exec-approval"
            assert params["codex_command"] == ["/bin/bash", "-lc", "touch made"]
            assert params["codex_cwd"] == str(home.work)
            assert params["codex_mcp_tool_call_id"] == str(number)
            assert {"threadId", "codex_event_id", "codex_call_id", "codex_parsed_cmd"} <= params.keys()
            await client.send(id=question["id"], result=answer)
            assert (await client.result(number))["content"][0]["text"] == "done"

    play(story())
    assert (home.work / "made").exists() is made
    if not made:
        assert "rejected" in str(model.inputs[-1][-1]["output"])


def test_a_client_that_cannot_be_asked_is_a_denial(home, raw, play) -> None:
    model = home.serve(call("exec_command", cmd="touch made"), say("done"))

    async def story() -> None:
        async with raw(capabilities={}) as client:
            result = await client.result(await client.call("codex", **UNTRUSTED))
            assert result["content"][0]["text"] == "done"
            assert any("nobody can answer" in event["msg"]["message"] for event in client.events("warning"))

    play(story())
    assert not (home.work / "made").exists()
    assert "no user can be asked" in str(model.inputs[-1][-1]["output"])


def test_cancelling_interrupts_the_turn_and_the_thread_goes_on(home, raw, play) -> None:
    home.serve(call("exec_command", cmd="sleep 60"), say("and on"))

    async def story() -> None:
        async with raw() as client:
            number = await client.call("codex", prompt="go", sandbox="workspace-write")
            begun = await client.until(lambda m: m.get("params", {}).get("msg", {}).get("type") == "exec_command_begin")
            await client.send(method="notifications/cancelled", params={"requestId": number})
            thread_id = begun["params"]["_meta"]["threadId"]
            result = await client.result(await client.call("codex-reply", prompt="on", threadId=thread_id))
            assert result["structuredContent"] == {"threadId": thread_id, "content": "and on"}

    play(story())


def test_two_threads_at_once(home, raw, play) -> None:
    home.serve(call("exec_command", cmd="touch one"), say("first"), say("second"))

    async def story() -> None:
        async with raw() as client:
            first = await client.call("codex", **UNTRUSTED)
            question = await client.question()
            second = await client.call("codex", prompt="two")
            assert (await client.result(second))["content"][0]["text"] == "first"
            await client.send(id=question["id"], result={"decision": "approved"})
            assert (await client.result(first))["content"][0]["text"] == "second"

    play(story())


def test_a_stored_thread_is_resumed_by_another_server(home, raw, play) -> None:
    model = home.serve(say("one"), say("two"))

    async def story() -> None:
        async with raw() as client:
            result = await client.result(await client.call("codex", prompt="first"))
        thread_id = result["structuredContent"]["threadId"]
        async with raw() as client:
            result = await client.result(await client.call("codex-reply", prompt="next", conversationId=thread_id))
            assert result["structuredContent"] == {"threadId": thread_id, "content": "two"}

    play(story())
    assert "first" in str(model.inputs[1])


def test_a_thread_that_was_unloaded_keeps_its_folder_and_its_permissions(home, raw, play, monkeypatch) -> None:
    monkeypatch.setattr("codex_plugin_mcp_server.conversations.MOST_IDLE", 0)
    inner = home.work / "inner"
    inner.mkdir()
    answers = (say("one"), call("exec_command", cmd="pwd; touch made"), say("two"))
    model = home.serve(*answers, more='sandbox_mode = "danger-full-access"\napproval_policy = "never"')

    async def story() -> None:
        async with raw() as client:
            result = await client.result(await client.call("codex", prompt="go", cwd="inner", sandbox="read-only"))
            thread_id = result["structuredContent"]["threadId"]
            result = await client.result(await client.call("codex-reply", prompt="on", threadId=thread_id))
            assert result["structuredContent"]["content"] == "two"

    play(story())
    assert f"{inner}\n" in str(model.inputs[-1][-1]["output"]).replace("\\n", "\n")
    assert not (inner / "made").exists()


def test_garbage_is_skipped(home, raw, play) -> None:
    home.serve(say("hello"))

    async def story() -> None:
        async with raw() as client:
            client.writer.write(b'garbage\n{"a": 1}\n[]\n\xff\xfe\n\n{"jsonrpc": "2.0", "id": 77, "method": 5}\n')
            result = await client.result(await client.call("codex", prompt="hi"))
            assert result["content"][0]["text"] == "hello"

    play(story())


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("codex", {"prompt": "x", "promt": 1}, "unknown field 'promt'. Did you mean prompt?"),
        ("codex", {}, "the field prompt is missing"),
        ("codex", {"prompt": 1}, "prompt must be text"),
        ("codex", {"prompt": "x", "sandbox": "none"}, "not one of read-only, workspace-write"),
        ("codex", {"prompt": "x", "cwd": "nowhere"}, "which is no folder"),
        ("codex", {"prompt": "x", "config": {"modell": 1}}, "modell"),
        ("codex-reply", {"prompt": "x"}, "threadId is missing"),
        ("codex-reply", {"prompt": "x", "threadId": "../x"}, "no id of a conversation"),
        ("codex-reply", {"prompt": "x", "threadId": "01a20556-16fc-7e5b-b082-5a1f4a54cf3a"}, "no rollout found"),
    ],
)
def test_bad_arguments_are_clear_errors(home, raw, play, tool, arguments, text) -> None:
    home.serve()

    async def story() -> None:
        async with raw() as client:
            result = await client.result(await client.call(tool, **arguments))
            assert result["isError"] is True
            assert text in result["content"][0]["text"]

    play(story())


def test_a_failed_turn_is_an_error(home, raw, play) -> None:
    home.serve()

    async def story() -> None:
        async with raw() as client:
            result = await client.result(await client.call("codex", prompt="x"))
            assert result["isError"] is True
            assert result["structuredContent"]["content"] == result["content"][0]["text"] != ""

    play(story())


@pytest.mark.parametrize("end", [pytest.param("eof", marks=pytest.mark.thorough), signal.SIGTERM])
def test_the_end_of_the_process_saves_and_leaves_nothing(home, process, play, end) -> None:
    home.serve(call("exec_command", cmd="echo $$ > pid; sleep 60"))

    async def story() -> None:
        async with process() as (client, running):
            await client.call("codex", prompt="go", sandbox="workspace-write")
            pid = home.work / "pid"
            while not (pid.exists() and pid.read_text().strip()):
                await asyncio.sleep(0.02)
            if end == "eof":
                running.stdin.close()
            else:
                running.send_signal(end)
            assert await running.wait() == (0 if end == "eof" else 128 + signal.SIGTERM)

    play(story())
    (rollout,) = home.rollouts
    assert "turn_aborted" in rollout.read_text()
    assert not _sleeping(home.work)


def _sleeping(folder: Any) -> list[str]:
    """Return the processes that still run in a folder."""
    from pathlib import Path

    found = []
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                found.append(entry.name)
        except OSError:
            continue
    return found
