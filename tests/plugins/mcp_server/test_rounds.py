"""Work that outlives a request: questions and answers in the revisions without a channel back to the client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework.testing import call, say

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
GO = {"prompt": "go", "approval-policy": "untrusted", "sandbox": "workspace-write"}


async def send(client: Any, tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    number = await client.start("tools/call", name=tool, arguments=arguments, _meta=MODERN, **more)
    return await client.until(lambda message: message.get("id") == number and "method" not in message)


def approve(question_id: str, decision: str = "approved") -> dict[str, Any]:
    return {question_id: {"action": "accept", "content": {"decision": decision}}}


def test_a_question_is_a_result_and_its_answer_comes_with_the_next_request(home, raw, play) -> None:
    home.serve(call("exec_command", cmd="touch made"), call("exec_command", cmd="touch too"), say("done"))

    async def story() -> None:
        async with raw(greets=False) as client:
            result = (await send(client, "codex", GO))["result"]
            assert result["resultType"] == "input_required"
            state = {"requestState": result["requestState"]}
            answered = 0
            while result["resultType"] == "input_required":
                (question,) = result["inputRequests"].items()
                name, request = question
                assert request["method"] == "elicitation/create"
                facts = result["_meta"]["codex/requests"][name]
                assert facts["codex_elicitation"] == "exec-approval"
                assert facts["codex_command"][-1].startswith("touch ")
                assert not answered or (home.work / "made").exists()
                again = (await send(client, "codex", GO, **state))["result"]  # a retry without answers asks again
                assert again["inputRequests"].keys() == {name}
                result = (await send(client, "codex", GO, inputResponses=approve(name), **state))["result"]
                answered += 1
            assert answered == 2
            assert result["structuredContent"]["content"] == "done"
            threads = {event["_meta"]["threadId"] for event in client.events()}
            assert threads == {result["structuredContent"]["threadId"]}
            assert len({event["_meta"]["requestId"] for event in client.events()}) > 1
            (end,) = client.events("task_complete")
            assert end["_meta"]["requestId"] == max(event["_meta"]["requestId"] for event in client.events())
            ended = await send(client, "codex", GO, **state)
            assert "has ended" in ended["error"]["message"]

    play(story())
    assert (home.work / "too").exists()


@pytest.mark.parametrize("state", ["guessed", ""])
def test_a_state_that_was_never_given_is_refused(home, raw, play, state) -> None:
    home.serve(call("exec_command", cmd="touch made"), say("done"))

    async def story() -> None:
        async with raw(greets=False) as client:
            result = (await send(client, "codex", GO))["result"]
            (name,) = result["inputRequests"]
            for tool, given in (("codex", state), ("codex-reply", result["requestState"])):
                refused = await send(client, tool, GO, requestState=given, inputResponses=approve(name))
                assert "error" in refused
            assert not (home.work / "made").exists()

    play(story())
    assert not (home.work / "made").exists()


def test_work_that_nobody_comes_back_for_is_stopped(home, raw, play, monkeypatch) -> None:
    monkeypatch.setattr("codex_plugin_mcp_server.runs.ANSWER_PATIENCE_S", 0.05)
    home.serve(call("exec_command", cmd="touch made"), say("done"))

    async def story() -> None:
        async with raw(greets=False) as client:
            result = (await send(client, "codex", GO))["result"]
            while "turn_aborted" not in "".join(path.read_text() for path in home.rollouts):
                await asyncio.sleep(0.01)
            (name,) = result["inputRequests"]
            late = await send(client, "codex", GO, requestState=result["requestState"], inputResponses=approve(name))
            assert "has ended" in late["error"]["message"]

    play(story())
    assert not (home.work / "made").exists()


def test_a_client_without_forms_is_not_asked(home, raw, play) -> None:
    model = home.serve(call("exec_command", cmd="touch made"), say("done"))

    async def story() -> None:
        meta = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
        async with raw(greets=False) as client:
            number = await client.start("tools/call", name="codex", arguments=GO, _meta=meta)
            assert (await client.result(number))["structuredContent"]["content"] == "done"

    play(story())
    assert not (home.work / "made").exists()
    assert "no user can be asked" in str(model.inputs[-1][-1]["output"])


@pytest.mark.thorough
def test_progress_always_increases() -> None:
    from codex_plugin_mcp_server.runs import _Progress

    counted = _Progress()
    assert [counted.next(done) for done in (None, 0.5, None)] == [(None, 1), (None, 2), (None, 3)]
    fractions = _Progress()
    numbers = [fractions.next(done) for done in (0.0, 0.5, None, 0.4, 0.9)]
    assert [total for total, _ in numbers] == [1.0] * 5
    values = [value for _, value in numbers]
    assert values == sorted(set(values))
    assert (values[0], values[1], values[-1]) == (0.0, 0.5, 0.9)
