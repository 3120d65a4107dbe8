"""Paginated threads, whose clients read turn items: what we write into them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel, ThreadMeta
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    AgentReasoningEvent,
    ContextCompactedEvent,
    ErrorEvent,
    EventMsg,
    ExecCommandEndEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PatchApplyEndEvent,
    ToolCallEndEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UnknownEvent,
    UserMessageEvent,
    ViewImageToolCallEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.events.command import AddFile
from codex_framework.contract.roles.stores import EventEntry
from codex_framework.testing.replies import call, custom_call, fault, reasoning, say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_rollout import RolloutStore

THREAD = "01a1fa36-db98-75f0-a6d6-2445f13ac227"
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"


def command_end(**fields: Any) -> ExecCommandEndEvent:
    usual: dict[str, Any] = {
        "call_id": "c1",
        "turn_id": "t1",
        "command": ("/bin/bash", "-lc", "ls"),
        "cwd": "/w/a b",
        "completed_at_ms": 1,
        "stdout": "x\n",
        "stderr": "",
        "aggregated_output": "x\n",
        "exit_code": 0,
        "duration_s": 1.25,
        "formatted_output": "x",
        "status": "completed",
        "process_id": "7",
        "parsed_cmd": ({"type": "unknown", "cmd": "ls"},),
        "source": "unified_exec_startup",
    }
    return ExecCommandEndEvent(**{**usual, **fields})


def tool_end(**fields: Any) -> ToolCallEndEvent:
    usual: dict[str, Any] = {"call_id": "m1", "turn_id": "t1", "tool": "count", "plugin": "words"}
    end = {"arguments": '{"a": 1}', "output": "3", "success": True, "duration_s": 0.5}
    return ToolCallEndEvent(**{**usual, **end, **fields})


def patch_end(call_id: str) -> PatchApplyEndEvent:
    changes = {"/w/n": AddFile("new\n")}
    return PatchApplyEndEvent(
        call_id=call_id, turn_id="t1", stdout="ok", stderr="", success=True, changes=changes, status="completed"
    )


@pytest.fixture
def written(store: RolloutStore, home: str, rollout: Callable[..., Path]) -> Callable[..., list[dict[str, Any]]]:
    """Append events to a paginated file and return the payloads of their lines."""

    def write(*events: EventMsg) -> list[dict[str, Any]]:
        path = rollout(history_mode="paginated")
        recorder = store.reopen(store.load(THREAD, home), home)
        also: frozenset[str] = recorder.also_kept  # type: ignore[attr-defined]
        recorder.append([EventEntry(msg) for msg in events if msg.is_kept() or msg.type in also])
        recorder.close()
        lines = [json.loads(line) for line in path.read_text().splitlines()][1:]
        assert [line["ordinal"] for line in lines] == list(range(1, 1 + len(lines)))
        return [line["payload"] for line in lines]

    return write


def items(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [payload["item"] for payload in payloads if payload["type"] == "item_completed"]


def test_item_has_the_time_of_its_start(written: Any) -> None:
    message = {"type": "AgentMessage", "id": "m1", "content": [{"type": "Text", "text": "hi"}]}
    payloads = written(
        TurnStartedEvent("t1", 5),
        ItemStartedEvent(THREAD, "t1", {**message, "content": []}, 7),
        ItemCompletedEvent(THREAD, "t1", message, 9),
        ItemCompletedEvent(THREAD, "t1", {**message, "id": "m2"}, 11),
    )
    times = [(each.get("started_at_ms"), each["completed_at_ms"]) for each in payloads[1:]]
    assert times == [(7, 9), (None, 11)]


def test_events_become_the_items_that_codex_writes(written: Any) -> None:
    payloads = written(
        TurnStartedEvent("t1", 5),
        UserMessageEvent("look", images=("data:image/png;base64,eA==",), local_images=("/w/p.png",)),
        command_end(),
        patch_end("f1"),
        ViewImageToolCallEvent("v1", "/w/ü.png"),
        tool_end(),
        tool_end(call_id="m2", success=False, output="no such word", arguments="{broken"),
        ContextCompactedEvent(),
        TurnCompleteEvent("t1", "done", 9, 12, 5, 4, {"message": "boo", "codex_error_info": "other"}),
    )
    assert payloads[0]["type"] == "task_started"
    assert payloads[-1]["error"] == {"message": "boo", "codex_error_info": "other"}
    for payload in payloads[1:-1]:
        assert (payload["type"], payload["thread_id"], payload["turn_id"]) == ("item_completed", THREAD, "t1")
    took = payloads[2]["completed_at_ms"] - payloads[2]["started_at_ms"]
    assert took == 1250
    user, command, patch, image, tool, failed, compaction = items(payloads)
    assert user.pop("id")
    assert compaction.pop("id")
    assert user == {
        "type": "UserMessage",
        "content": [
            {"type": "text", "text": "look", "text_elements": []},
            {"type": "image", "image_url": "data:image/png;base64,eA=="},
            {"type": "local_image", "path": "/w/p.png"},
        ],
    }
    assert command == {
        "type": "CommandExecution",
        "id": "c1",
        "process_id": "7",
        "command": ["/bin/bash", "-lc", "ls"],
        "cwd": "file:///w/a%20b",
        "parsed_cmd": [{"type": "unknown", "cmd": "ls"}],
        "source": "unified_exec_startup",
        "status": "completed",
        "aggregated_output": "x\n",
        "exit_code": 0,
        "duration": {"secs": 1, "nanos": 250_000_000},
    }
    assert patch == {
        "type": "FileChange",
        "id": "f1",
        "changes": {"/w/n": {"type": "add", "content": "new\n"}},
        "status": "completed",
        "stdout": "ok",
        "stderr": "",
    }
    assert image == {"type": "ImageView", "id": "v1", "path": "file:///w/%C3%BC.png"}
    assert tool == {
        "type": "McpToolCall",
        "id": "m1",
        "server": "words",
        "tool": "count",
        "arguments": {"a": 1},
        "status": "completed",
        "result": {"content": [{"type": "text", "text": "3"}]},
        "duration": {"secs": 0, "nanos": 500_000_000},
    }
    assert (failed["status"], failed["error"], failed["arguments"]) == (
        "failed",
        {"message": "no such word"},
        "{broken",
    )
    assert compaction == {"type": "ContextCompaction"}


def test_a_compaction_is_written_once_with_the_id_of_its_item(written: Any) -> None:
    shown = {"type": "ContextCompaction", "id": "c1"}
    payloads = written(TurnStartedEvent("t1"), ItemCompletedEvent(THREAD, "t1", shown, 5), ContextCompactedEvent())
    assert items(payloads) == [shown]


def test_a_message_is_written_once_with_the_id_of_its_item(written: Any) -> None:
    shown = {"type": "AgentMessage", "id": "msg_1", "content": [{"type": "Text", "text": "hi"}]}
    thought = {"type": "Reasoning", "id": "rs_1", "summary_text": ["one", "two"], "raw_content": []}
    payloads = written(
        TurnStartedEvent("t1"),
        ItemCompletedEvent(THREAD, "t1", thought, 1),
        AgentReasoningEvent("one"),
        AgentReasoningEvent("two"),
        ItemCompletedEvent(THREAD, "t1", shown, 1),
        AgentMessageEvent("hi"),
        AgentMessageEvent("hi"),
        AgentReasoningEvent("of a plugin"),
    )
    kinds = [(item["type"], item["id"]) for item in items(payloads)]
    assert kinds[:2] == [("Reasoning", "rs_1"), ("AgentMessage", "msg_1")]
    assert [kind for kind, _ in kinds[2:]] == ["AgentMessage", "Reasoning"], "those of plugins have no item yet"
    assert len({name for _, name in kinds}) == len(kinds)
    assert len(payloads) == 5


def test_the_same_words_in_the_next_turn_are_written_again(written: Any) -> None:
    shown = {"type": "AgentMessage", "id": "msg_1", "content": [{"type": "Text", "text": "hi"}]}
    item = ItemCompletedEvent(THREAD, "t1", shown, 1)
    payloads = written(TurnStartedEvent("t1"), item, TurnStartedEvent("t2"), AgentMessageEvent("hi"))
    assert [payload["turn_id"] for payload in payloads if payload["type"] == "item_completed"] == ["t1", "t2"]


def test_items_have_ids_of_their_own(written: Any) -> None:
    payloads = written(
        TurnStartedEvent("t1"),
        ItemCompletedEvent(THREAD, "t1", {"type": "AgentMessage", "id": "", "content": []}, 1),
        command_end(call_id="c"),
        command_end(call_id="c"),
        tool_end(call_id="c"),
        patch_end("p"),
        tool_end(call_id="p", tool="apply_patch"),
        command_end(call_id="w", source="unified_exec_interaction"),
    )
    message, *others = items(payloads)
    assert message["id"]
    assert [(item["type"], item["id"]) for item in others] == [
        ("CommandExecution", "c"),
        ("CommandExecution", "c-2"),
        ("McpToolCall", "c-3"),
        ("FileChange", "p"),
    ]


def test_the_same_call_in_the_next_turn_keeps_its_id(written: Any) -> None:
    end = command_end(call_id="c")
    payloads = written(TurnStartedEvent("t1"), end, TurnStartedEvent("t2"), end.evolve(turn_id="t2"))
    assert [item["id"] for item in items(payloads)] == ["c", "c"]


def test_what_is_not_kept_elsewhere_is_not_kept_here(written: Any) -> None:
    assert (
        written(TurnStartedEvent("t1"), UnknownEvent({"type": "hook_started"}), WarningEvent("w"), ErrorEvent("e"))[1:]
        == []
    )


def test_a_thread_that_is_not_paginated_keeps_its_events(store: RolloutStore, home: str, rollout: Any) -> None:
    path = rollout()
    recorder = store.reopen(store.load(THREAD, home), home)
    recorder.append([EventEntry(UserMessageEvent("hi")), EventEntry(AgentMessageEvent("yes"))])
    recorder.close()
    kinds = [json.loads(line)["payload"].get("type") for line in path.read_text().splitlines()]
    assert kinds == [None, "user_message", "agent_message"]
    assert recorder.also_kept == frozenset()  # type: ignore[attr-defined]


def test_what_we_wrote_is_read_as_events(store: RolloutStore, home: str, written: Any) -> None:
    written(TurnStartedEvent("t1"), UserMessageEvent("hi", local_images=("/w/p.png",)), AgentMessageEvent("yes"))
    assert store.load(THREAD, home).events[1:] == (
        UserMessageEvent("hi", local_images=("/w/p.png",)),
        AgentMessageEvent("yes"),
    )


async def turns_of_ours(home: str, cwd: str, url: str, thread: str, *prompts: str) -> None:
    environ = {"CODEX_HOME": home, "PATH": "/usr/bin:/bin", "HOME": cwd}
    provider = f'model_providers.mock={{name="mock",base_url="{url}",wire_api="responses"}}'
    overrides = (provider, 'model_provider="mock"', 'model="gpt-5.5"', 'sandbox_mode="danger-full-access"')
    config = load_config(cwd=Path(cwd), environ=environ, overrides=(*overrides, 'approval_policy="never"'))
    async with await Kernel.create(config, environ=environ) as kernel:
        resumed = await kernel.resume_thread(thread)
        for prompt in prompts:
            await resumed.run(prompt)


def test_a_thread_that_goes_on_here_keeps_its_items(meta: ThreadMeta, home: str, rollout: Any) -> None:
    Path(meta.cwd).mkdir()
    path = rollout(history_mode="paginated", cwd=meta.cwd)
    ours = [reasoning("I look.") + call("exec_command", cmd="echo hi; exit 3"), custom_call("apply_patch", PATCH)]
    wrong = fault(body={"error": {"message": "bad thing", "code": "x"}}, status=400)
    with ResponsesServer([*ours, say("done"), wrong]) as server:
        asyncio.run(turns_of_ours(home, meta.cwd, server.url, THREAD, "q2", "q3"))
    payloads = [json.loads(line)["payload"] for line in path.read_text().splitlines()]
    told = [payload for payload in payloads if "type" in payload]
    assert [item["type"] for item in items(told)] == [
        "UserMessage",
        "Reasoning",
        "CommandExecution",
        "FileChange",
        "AgentMessage",
        "UserMessage",
    ]
    assert not [payload for payload in told if payload["type"] in ("user_message", "agent_message", "patch_apply_end")]
    first, second = (payload for payload in told if payload["type"] == "task_complete")
    assert "error" not in first
    assert first["started_at"] <= first["completed_at"]
    assert second["error"]["codex_error_info"] == "bad_request"
    assert "bad thing" in second["error"]["message"]


def test_clients_of_codex_see_our_turns_in_its_thread(meta: ThreadMeta, home: str, app_server: Any) -> None:
    ours = [
        reasoning("I look.") + call("exec_command", cmd="echo hi; exit 3"),
        custom_call("apply_patch", PATCH),
        say("done"),
        fault(body={"error": {"message": "bad thing", "code": "x"}}, status=400),
    ]
    with ResponsesServer([say("a1"), *ours, say("a4")]) as server:
        with app_server(server.url) as app:
            thread = app.request("thread/start", cwd=meta.cwd, historyMode="paginated")["thread"]["id"]
            app.turn(thread, "q1")
        asyncio.run(turns_of_ours(home, meta.cwd, server.url, thread, "q2", "q3"))
        with app_server(server.url) as app:
            app.request("thread/resume", threadId=thread, excludeTurns=True)
            app.turn(thread, "q4")
            turns = app.turns(thread)
    assert [turn["status"] for turn in turns] == ["completed", "completed", "failed", "completed"]
    assert [[item["type"] for item in turn["items"]] for turn in turns] == [
        ["userMessage", "agentMessage"],
        ["userMessage", "reasoning", "commandExecution", "fileChange", "agentMessage"],
        ["userMessage"],
        ["userMessage", "agentMessage"],
    ]
    command = turns[1]["items"][2]
    assert (command["status"], command["exitCode"], command["aggregatedOutput"]) == ("failed", 3, "hi\n")
    assert "bad thing" in turns[2]["error"]["message"]


@pytest.mark.parametrize("depth", [99, 100, 900, 100_000])
@pytest.mark.parametrize("ends", ["[]", ('{"a":', "}")])
def test_arguments_that_are_nested_too_deeply_are_kept_as_text(written: Any, depth: int, ends: tuple[str, str]) -> None:
    deep = ends[0] * depth + "1" + ends[1] * depth
    lines = written(tool_end(arguments=deep), tool_end(arguments="[" * depth))
    assert [item["arguments"] for item in items(lines)] == [json.loads(deep) if depth < 100 else deep, "[" * depth]
