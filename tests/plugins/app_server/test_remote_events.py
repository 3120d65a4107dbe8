"""Notifications as events again: what the one end shows is what the other end was told."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Any

import pytest

from codex_framework import Event, EventMsg
from codex_framework.cli.human import HumanOutput
from codex_framework.cli.jsonl import JsonEvents
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    ContextCompactedEvent,
    DeprecationNoticeEvent,
    ErrorEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    PlanStep,
    PlanUpdateEvent,
    StreamErrorEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    ViewImageToolCallEvent,
    WarningEvent,
)
from codex_plugin_app_server.notifications import Translator
from codex_plugin_app_server.remote.events import EventReader
from codex_plugin_app_server.remote.peer import REFUSALS
from codex_plugin_app_server.requests import SERVER_REQUESTS
from codex_plugin_app_server.schema import protocol

USED = TokenUsage(5, 1, 3, 2, 8, 4)


def received(events: Iterable[EventMsg]) -> list[EventMsg]:
    """Return what a client makes of the notifications of a turn."""
    translator, reader = Translator("t"), EventReader("t")
    found = [reader.begin_turn({"id": "u", "startedAt": 1})]
    for msg in (TurnStartedEvent("u", 1), *events):
        for note in translator.translate(Event("u", msg)):
            found += reader.read(note.method, note.params)
    assert reader.has_ended
    assert reader.usage == USED
    return found


def shown(events: Iterable[EventMsg]) -> tuple[list[Any], str]:
    """Return the JSON lines and the text for events."""
    lines, text = JsonEvents(lambda: USED), StringIO()
    output = HumanOutput(text, live=True)
    found: list[Any] = []
    for msg in events:
        found += lines.of(msg)
        output.show(msg)
    return found, text.getvalue()


def item(kind: str, *, begun: bool = False, **fields: Any) -> EventMsg:
    whole = {"type": kind, "id": "i", **fields}
    return ItemStartedEvent("t", "u", whole, 1) if begun else ItemCompletedEvent("t", "u", whole, 2, 1)


MCP: dict[str, Any] = {"server": "s", "tool": "t", "arguments": {"a": 1}}
RESULT = {"content": [{"type": "text", "text": "x"}], "structuredContent": {"y": 1}}
SPAWN: dict[str, Any] = {
    "tool": "spawn_agent",
    "sender_thread_id": "t",
    "receiver_thread_ids": ["x"],
    "prompt": "Go.",
    "agents_states": {"x": {"completed": "done"}, "y": "pending_init"},
}
EVENTS: dict[str, list[EventMsg]] = {
    "messages": [
        AgentMessageContentDeltaEvent("t", "u", "i", "Hel"),
        AgentMessageContentDeltaEvent("t", "u", "i", "lo"),
        item("AgentMessage", content=[{"type": "Text", "text": "Hello"}], phase="final_answer"),
        item("Reasoning", summary_text=["**A**", "b"], raw_content=["c"]),
    ],
    "calls of servers": [
        item("McpToolCall", begun=True, **MCP, status="in_progress"),
        item("McpToolCall", **MCP, status="completed", result=RESULT),
        item("McpToolCall", begun=True, **MCP, id="j", status="in_progress"),
        item("McpToolCall", **MCP, id="j", status="failed", error={"message": "no"}),
    ],
    "agents": [
        item("CollabAgentToolCall", begun=True, **SPAWN, status="in_progress"),
        item("CollabAgentToolCall", **SPAWN, status="completed"),
    ],
    "searches": [
        item("WebSearch", begun=True, query="", action={"type": "other"}),
        item("WebSearch", query="https://x.y", action={"type": "open_page", "url": "https://x.y"}),
    ],
    "images": [
        item("ImageView", path="/work/a.png"),
        item("ImageGeneration", status="completed", result="aGk=", revised_prompt=None, saved_path="/a.png"),
    ],
    "plans": [PlanUpdateEvent((PlanStep("a", "in_progress"), PlanStep("b", "completed")), "why")],
    "compactions": [item("ContextCompaction")],
    "notices": [
        WarningEvent("careful"),
        DeprecationNoticeEvent("old", "new"),
        StreamErrorEvent("again", {"response_stream_disconnected": {"http_status_code": 500}}, "why"),
    ],
    "an error": [ErrorEvent("no", "context_window_exceeded")],
}
OLDER: dict[str, EventMsg] = {
    "ImageView": ViewImageToolCallEvent("i", "/work/a.png"),
    "ContextCompaction": ContextCompactedEvent(),
}
"""What the kernel sends as well, and outputs show in place of the item."""


@pytest.mark.parametrize("name", EVENTS)
def test_a_client_shows_what_the_server_would_show(name: str) -> None:
    tokens = TokenCountEvent(TokenUsageInfo(USED, USED))
    events = [*EVENTS[name], tokens, TurnCompleteEvent("u")]
    known = [getattr(msg, "item", {}).get("type") for msg in events]
    here = [TurnStartedEvent("u", 1), *events, *(OLDER[kind] for kind in known if kind in OLDER)]
    lines, text = shown(received(events))
    expected = shown(here)
    assert lines == expected[0]
    assert sorted(text.splitlines()) == sorted(expected[1].splitlines())


def turn(status: str, **fields: Any) -> dict[str, Any]:
    return {"threadId": "t", "turn": {"id": "u", "status": status, **fields}}


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([("turn/completed", turn("interrupted"))], [TurnAbortedEvent("u", "interrupted")]),
        ([("turn/completed", turn("completed"))], [TurnCompleteEvent("u")]),
        (
            [("turn/completed", turn("failed", error={"message": "no"}))],
            [ErrorEvent("no"), TurnCompleteEvent("u")],
        ),
        (
            [
                ("error", {"threadId": "t", "turnId": "u", "error": {"message": "no"}, "willRetry": False}),
                ("turn/completed", turn("failed", error={"message": "no"})),
            ],
            [ErrorEvent("no"), TurnCompleteEvent("u")],
        ),
        ([("turn/completed", {**turn("completed"), "threadId": "other"})], []),
        ([("turn/completed", {"threadId": "t", "turn": {"id": "other", "status": "completed"}})], []),
        ([("warning", {"threadId": "other", "message": "careful"})], []),
        ([("warning", {"threadId": None, "message": "careful"})], [WarningEvent("careful")]),
        ([("configWarning", {"summary": "careful", "details": "why"})], [WarningEvent("careful why")]),
        ([("something/new", {"threadId": "t"})], []),
        ([("item/completed", {"turnId": "u", "item": {"type": "new", "id": "i"}, "completedAtMs": 1})], []),
    ],
)
def test_only_the_turn_is_followed(notes: list[tuple[str, dict[str, Any]]], expected: list[EventMsg]) -> None:
    reader = EventReader("t")
    reader.begin_turn({"id": "u"})
    assert [msg for method, params in notes for msg in reader.read(method, params)] == expected


ANSWERS = {
    "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
    "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
    "item/permissions/requestApproval": "PermissionsRequestApprovalResponse",
    "item/tool/call": "DynamicToolCallResponse",
    "item/tool/requestUserInput": "ToolRequestUserInputResponse",
    "mcpServer/elicitation/request": "McpServerElicitationRequestResponse",
}


@pytest.mark.parametrize("method", SERVER_REQUESTS)
def test_a_question_is_declined_in_its_own_form(method: str) -> None:
    protocol().check(REFUSALS[method], ANSWERS[method])
    assert "accept" not in str(REFUSALS[method])
