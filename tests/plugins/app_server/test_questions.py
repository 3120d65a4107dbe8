"""Questions to clients: what is asked, and what each answer does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from codex_framework import Tool, ToolContext, hookimpl, tool
from codex_framework.testing.replies import call, custom_call, say
from codex_plugin_app_server import requests
from codex_plugin_mcp.questions import Elicitation, ElicitationRequest

OVERRIDES = (
    "sandbox_workspace_write.exclude_slash_tmp=true",  # the folders of tests are temporary
    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
)


def _escalated() -> Any:
    return call("exec_command", cmd="echo x >> mark", sandbox_permissions="require_escalated", justification="why not")


async def _turn(client: Any, answer: Mapping[str, Any], **settings: Any) -> tuple[list[Any], dict[str, Any]]:
    """Run a turn whose questions all get an answer. Return the questions and the turn."""
    started = await client.call("thread/start", approvalPolicy="on-request", approvalsReviewer="user", **settings)
    client.start("turn/start", threadId=started["thread"]["id"], input=[{"type": "text", "text": "go"}])
    asked = []
    while True:
        message = await client.until(lambda each: each.get("method") == "turn/completed" or "id" in each)
        if "method" not in message:
            continue
        if message["method"] == "turn/completed":
            return asked, message["params"]["turn"]
        asked.append(message)
        client.write({"id": message["id"], **answer})


def _recorded_decisions(home: Any) -> list[str]:
    """The answers of users, as the records of threads have them."""
    lines = [json.loads(line) for file in home.path.rglob("rollout-*.jsonl") for line in file.read_text().splitlines()]
    entries = [line["payload"] for line in lines if line["type"] == "plugin_entry"]
    notes = [entry["data"] for entry in entries if entry["kind"] == "provenance"]
    return [note["decision"] for note in notes if note["did"] == "decided" and note["by"]["role"] == "user"]


@pytest.mark.parametrize(
    ("answer", "times", "runs", "status"),
    [
        ({"result": {"decision": "accept"}}, 2, 2, "completed"),
        ({"result": {"decision": "acceptForSession"}}, 1, 2, "completed"),
        ({"result": {"decision": "decline"}}, 2, 0, "completed"),
        ({"result": {"decision": "cancel"}}, 1, 0, "interrupted"),
        ({"result": {"decision": "approved"}}, 2, 0, "completed"),
        ({"result": {"decision": {"acceptWithExecpolicyAmendment": {}}}}, 2, 0, "completed"),
        ({"result": {"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": []}}}}, 2, 0, "completed"),
        ({"result": {}}, 2, 0, "completed"),
        ({"result": "accept"}, 2, 0, "completed"),
        ({"result": None}, 2, 0, "completed"),
        ({"error": {"code": -32601, "message": "no"}}, 2, 0, "completed"),
    ],
)
def test_answer_decides_about_a_command(
    home: Any, connected: Callable[..., Any], answer: Any, times: int, runs: int, status: str
) -> None:
    home.serve(_escalated(), _escalated(), say("ok"))

    async def run() -> None:
        async with connected(*OVERRIDES) as client:
            asked, turn = await _turn(client, answer, cwd=str(home.work))
            assert len(asked) == times
            assert turn["status"] == status
            assert asked[0]["params"]["reason"] == "why not"
            assert asked[0]["params"]["availableDecisions"][0] == "accept"
            resolved = [
                each["params"]["requestId"] for each in client.seen if each.get("method") == "serverRequest/resolved"
            ]
            assert resolved == [each["id"] for each in asked]

    asyncio.run(run())
    mark = home.work / "mark"
    assert (mark.read_text().count("x") if mark.exists() else 0) == runs


def test_amendment_is_saved_as_a_rule(home: Any, connected: Callable[..., Any]) -> None:
    command = call("exec_command", cmd="touch a1", sandbox_permissions="require_escalated", justification="w")
    home.serve(command, command, say("ok"))

    async def run() -> None:
        async with connected(*OVERRIDES) as client:
            words = {"execpolicy_amendment": ["touch", "a1"]}
            answer = {"result": {"decision": {"acceptWithExecpolicyAmendment": words}}}
            asked, _ = await _turn(client, answer, cwd=str(home.work))
            assert asked[0]["params"]["proposedExecpolicyAmendment"] == ["touch", "a1"]
            assert len(asked) == 1

    asyncio.run(run())
    assert 'prefix_rule(pattern=["touch", "a1"], decision="allow")' in (home.path / "rules/default.rules").read_text()


@pytest.mark.parametrize(
    ("decision", "status"), [("accept", "completed"), ("decline", "declined"), ("what", "declined")]
)
def test_answer_decides_about_a_patch(home: Any, connected: Callable[..., Any], decision: str, status: str) -> None:
    outside = home.work.parent / "outside.txt"
    home.serve(custom_call("apply_patch", f"*** Begin Patch\n*** Add File: {outside}\n+hi\n*** End Patch"), say("ok"))

    async def run() -> None:
        async with connected(*OVERRIDES) as client:
            asked, _ = await _turn(client, {"result": {"decision": decision}}, cwd=str(home.work))
            assert asked[0]["method"] == "item/fileChange/requestApproval"
            shown = [each for each in client.seen if each.get("params", {}).get("item", {}).get("type") == "fileChange"]
            assert [each["method"] for each in shown] == ["item/started", "item/completed"]
            assert shown[0]["params"]["item"]["changes"][0]["path"] == str(outside)
            assert client.seen.index(shown[0]) < client.seen.index(asked[0])
            assert shown[1]["params"]["item"]["status"] == status

    asyncio.run(run())
    assert outside.exists() == (decision == "accept")


@pytest.mark.parametrize(
    ("answer", "granted"),
    [
        ({"permissions": {"network": {"enabled": True}}, "scope": "turn"}, True),
        ({"permissions": {"network": None, "fileSystem": None}}, False),
        ({"permissions": {}}, False),
        ({"permissions": {"fileSystem": {"write": "everything"}}}, False),
        ({}, False),
    ],
)
def test_answer_decides_about_permissions(home: Any, connected: Callable[..., Any], answer: Any, granted: bool) -> None:
    wanted = {"network": {"enabled": True}}
    model = home.serve(call("request_permissions", permissions=wanted, reason="to fetch"), say("ok"))

    async def run() -> None:
        async with connected(*OVERRIDES, "features.request_permissions_tool=true") as client:
            asked, _ = await _turn(client, {"result": answer}, cwd=str(home.work))
            assert asked[0]["method"] == "item/permissions/requestApproval"
            assert asked[0]["params"]["permissions"]["network"] == {"enabled": True}

    asyncio.run(run())
    told = model.requests[1].json["input"][-1]["output"]
    assert ('"enabled": true' in told or '"enabled":true' in told) == granted
    assert _recorded_decisions(home) == ["approved" if granted else "denied"]


class Asking:
    """A plugin with tools that ask."""

    @hookimpl
    def codex_tools(self) -> list[Tool]:
        @tool(needs_approval=True)
        async def sing() -> str:
            """Sing."""
            return "la"

        @tool
        async def ask(context: ToolContext) -> str:
            """Ask the user."""
            form = {"type": "object", "properties": {"name": {"type": "string"}}}
            question = Elicitation(mode="form", message="Who?", requested_schema=form)
            answer = await context.request(ElicitationRequest(server_name="own", id="q1", request=question))
            return f"{answer.decision} {dict(answer.content or {})}"

        return [sing, ask]


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ({"action": "accept", "content": {"name": "me"}, "_meta": None}, "accept {'name': 'me'}"),
        ({"action": "decline", "content": None, "_meta": None}, "decline {}"),
        ({"action": "what"}, "cancel {}"),
        ({}, "cancel {}"),
    ],
)
def test_elicitation_gets_the_client_s_answer(
    home: Any, connected: Callable[..., Any], answer: Any, output: str
) -> None:
    model = home.serve(call("ask"), say("ok"))

    async def run() -> None:
        async with connected(plugins=[Asking()]) as client:
            asked, _ = await _turn(client, {"result": answer}, cwd=str(home.work))
            assert asked[0]["method"] == "mcpServer/elicitation/request"
            assert asked[0]["params"]["message"] == "Who?"
            assert asked[0]["params"]["serverName"] == "own"

    asyncio.run(run())
    assert model.requests[1].json["input"][-1]["output"] == output


@pytest.mark.parametrize(
    ("answer", "times", "decision", "output"),
    [
        ({"action": "accept", "content": {}, "_meta": None}, 2, "approved", "la"),
        ({"action": "accept", "content": {}, "_meta": {"persist": "session"}}, 1, "approved_for_session", "la"),
        ({"action": "accept", "content": {}, "_meta": {"persist": "always"}}, 2, "approved", "la"),
        ({"action": "decline", "content": None, "_meta": None}, 2, "denied", ""),
        ({"accept": True}, 2, "denied", ""),
    ],
)
def test_call_of_a_tool_is_approved_by_an_empty_form(
    home: Any, connected: Callable[..., Any], answer: Any, times: int, decision: str, output: str
) -> None:
    model = home.serve(call("sing"), call("sing"), say("ok"))

    async def run() -> None:
        async with connected(plugins=[Asking()]) as client:
            asked, _ = await _turn(client, {"result": answer}, cwd=str(home.work))
            assert len(asked) == times
            assert asked[0]["params"]["_meta"]["persist"] == ["session"]
            assert asked[0]["params"]["requestedSchema"] == {"type": "object", "properties": {}}

    asyncio.run(run())
    told = model.requests[1].json["input"][-1]["output"]
    assert told == output if output else "reject" in told
    assert _recorded_decisions(home) == [decision] * 2


def test_dynamic_tool_gets_the_client_s_result(home: Any, connected: Callable[..., Any]) -> None:
    model = home.serve(call("lookup", id=7), say("ok"))
    lookup = {"type": "function", "name": "lookup", "description": "looks up", "inputSchema": {"type": "object"}}

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            result = {"success": True, "contentItems": [{"type": "inputText", "text": "found 7"}]}
            asked, _ = await _turn(client, {"result": result}, dynamicTools=[lookup])
            assert asked[0]["params"]["arguments"] == {"id": 7}
            assert "serverRequest/resolved" not in client.methods()

    asyncio.run(run())
    assert "found 7" in str(model.requests[1].json["input"][-1]["output"])


def test_question_without_a_client_ends_with_no(
    home: Any, serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "ABSENCE_S", 0.05)
    home.serve(_escalated(), say("ok"))

    async def run() -> None:
        async with serving(*OVERRIDES) as running:
            first, second = running.connect(), running.connect()
            await first.hello()
            await second.hello()
            started = await first.call("thread/start", cwd=str(home.work), approvalPolicy="on-request")
            thread_id = started["thread"]["id"]
            first.start("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
            await first.question()
            first.leave()
            loaded = running.server.threads[thread_id]
            async with asyncio.timeout(60):
                outcome = await loaded.thread.settled()
            assert outcome.status == "completed"
            turns = (await second.call("thread/turns/list", threadId=thread_id, itemsView="full"))["data"]
            assert [item["status"] for item in turns[0]["items"] if item["type"] == "commandExecution"] == ["declined"]

    asyncio.run(run())
    assert not (home.work / "mark").exists()


def test_too_many_unfinished_requests_are_refused(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            numbers = [client.start("thread/list") for _ in range(300)]
            answers = [await client.response(number) for number in numbers]
            refused = [answer["error"] for answer in answers if "error" in answer]
            assert refused
            assert {error["code"] for error in refused} == {-32001}
            assert {error["message"] for error in refused} == {"Server overloaded; retry later."}
            assert sum("result" in answer for answer in answers) >= 128
            await client.call("thread/list")

    asyncio.run(run())


def test_answer_under_another_id_or_of_a_stranger_decides_nothing(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(call("exec_command", cmd="true"), _escalated(), say("ok"))
    accept = {"result": {"decision": "accept"}}

    async def run() -> None:
        async with serving(*OVERRIDES) as running:
            client, stranger = running.connect(), running.connect()
            await client.hello()
            await stranger.hello()
            for number in (False, 0.0, "0", None, [], {}, -1, 1, 10**30):
                client.write({"id": number, **accept})  # before anything is asked
            started = await client.call("thread/start", cwd=str(home.work), approvalPolicy="on-request")
            thread = {"threadId": started["thread"]["id"]}
            client.start("turn/start", **thread, input=[{"type": "text", "text": "go"}])
            question = await client.question()
            assert question["id"] == 0
            for number in (False, 0.0, "0", None, [], {}, -1, 1, 10**30):
                client.write({"id": number, **accept})
            stranger.write({"id": 0, **accept})
            await stranger.call("model/list")
            await client.call("model/list")
            assert "serverRequest/resolved" not in client.methods()
            client.answer(question, decision="decline")
            client.answer(question, decision="accept")
            await client.notification("turn/completed")

    asyncio.run(run())
    assert not (home.work / "mark").exists()
