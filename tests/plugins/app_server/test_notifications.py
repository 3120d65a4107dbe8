"""Events as notifications: each one fits the schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework import Event, EventMsg
from codex_framework.contract.protocol.events import (
    AgentReasoningSectionBreakEvent,
    DeprecationNoticeEvent,
    ErrorEvent,
    ExecCommandOutputDeltaEvent,
    ItemCompletedEvent,
    PlanStep,
    PlanUpdateEvent,
    ReasoningRawContentDeltaEvent,
    StreamErrorEvent,
    TerminalInteractionEvent,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    ToolCallProgressEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_plugin_app_server.connection import encode_notification
from codex_plugin_app_server.notifications import Translator
from codex_plugin_guardian.events import GuardianAssessmentEvent, GuardianWarningEvent
from codex_plugin_hooks.events import HookCompletedEvent, HookEntry, HookRun, HookStartedEvent
from codex_plugin_mcp.events import McpStartupUpdateEvent
from codex_plugin_openai.server_signals import (
    ModelRerouteEvent,
    ModelVerificationEvent,
    TurnModerationMetadataEvent,
)
from codex_plugin_plan_mode.events import PlanDeltaEvent
from tests.plugins.app_server.conftest import check_message

THREAD = "01a1fa1a-56dd-7632-b4ae-412af7e8b615"
RUN = HookRun(
    id="h1",
    event_name="pre_tool_use",
    source_path="/home/user/hooks.json",
    source="session_flags",
    display_order=0,
    started_at=1,
    entries=(HookEntry("warning", "careful"),),
)
CALL: dict[str, Any] = {"call_id": "c1", "turn_id": "t1", "tool": "lookup", "plugin": "own", "arguments": '{"id": 7}'}


def translated(*events: EventMsg) -> list[dict[str, Any]]:
    """Return the notifications of events of one turn, after checking them."""
    translator = Translator(THREAD)
    found = []
    for msg in (TurnStartedEvent("t1", 1), *events):
        for note in translator.translate(Event("t1", msg)):
            message = json.loads(encode_notification(note.method, note.params))
            check_message(message, {})
            found.append(message)
    return found[1:]


@pytest.mark.parametrize(
    ("msg", "method"),
    [
        (WarningEvent("careful"), "warning"),
        (DeprecationNoticeEvent("old", "new"), "deprecationNotice"),
        (ErrorEvent("no", "context_window_exceeded"), "error"),
        (StreamErrorEvent("again", {"response_stream_disconnected": {"http_status_code": 500}}), "error"),
        (PlanUpdateEvent((PlanStep("a", "in_progress"),), "why"), "turn/plan/updated"),
        (AgentReasoningSectionBreakEvent("r1", 1), "item/reasoning/summaryPartAdded"),
        (ReasoningRawContentDeltaEvent(THREAD, "t1", "r1", "hm"), "item/reasoning/textDelta"),
        (
            ExecCommandOutputDeltaEvent(call_id="c1", stream="stdout", chunk=b"\xff"),
            "item/commandExecution/outputDelta",
        ),
        (
            TerminalInteractionEvent(call_id="c1", process_id="7", stdin="y\n"),
            "item/commandExecution/terminalInteraction",
        ),
        (ToolCallProgressEvent(call_id="c1", text="half"), "item/mcpToolCall/progress"),
        (TurnAbortedEvent("t1", "interrupted"), "turn/completed"),
        (HookStartedEvent("t1", RUN), "hook/started"),
        (HookCompletedEvent(None, RUN.evolve(status="completed", completed_at=2, duration_ms=9)), "hook/completed"),
        (McpStartupUpdateEvent("time", {"state": "failed", "error": "gone"}), "mcpServer/startupStatus/updated"),
        (GuardianWarningEvent("denied"), "guardianWarning"),
        (PlanDeltaEvent(THREAD, "t1", "p1", "first"), "item/plan/delta"),
        (ModelRerouteEvent("a", "b"), "model/rerouted"),
        (ModelVerificationEvent(("trusted_access_for_cyber", "later")), "model/verification"),
        (TurnModerationMetadataEvent({"score": 1}), "turn/moderationMetadata"),
    ],
)
def test_event_is_a_notification_of_the_schema(msg: EventMsg, method: str) -> None:
    assert [note["method"] for note in translated(msg)] == [method]


def test_verification_that_the_protocol_does_not_know_is_not_shown() -> None:
    assert translated(ModelVerificationEvent(("later",))) == []


def test_reviews_of_the_guardian_are_shown_from_begin_to_end() -> None:
    review = GuardianAssessmentEvent(
        id="g1",
        turn_id="t1",
        started_at_ms=1,
        status="in_progress",
        action={"type": "command", "source": "unified_exec", "command": "ls", "cwd": "/work"},
        target_item_id="c1",
    )
    denied = review.evolve(status="denied", completed_at_ms=2, risk_level="high", decision_source="agent")
    started, completed = translated(review, denied)
    assert started["method"] == "item/autoApprovalReview/started"
    assert completed["method"] == "item/autoApprovalReview/completed"
    assert completed["params"]["review"]["status"] == "denied"
    assert completed["params"]["action"]["source"] == "unifiedExec"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "WebSearch", "id": "w", "query": "q", "action": {"type": "open_page", "url": "https://x.y"}},
        {"type": "WebSearch", "id": "w", "query": "", "action": {"type": "strange"}},
        {"type": "ImageView", "id": "i", "path": "file:///work/a%20b.png"},
        {"type": "ImageGeneration", "id": "i", "status": "completed", "result": "aGk=", "revised_prompt": None},
        {"type": "Plan", "id": "p", "text": "1. a"},
        {"type": "McpToolCall", "id": "m", "server": "s", "tool": "t", "arguments": {}, "status": "failed", "error": {"message": "x"}},
        {"type": "Reasoning", "id": "r", "summary_text": ["a"], "raw_content": []},
        {"type": "ContextCompaction", "id": "c"},
        {"type": "EnteredReviewMode", "id": "e", "target": {}, "user_facing_hint": "current changes"},
        {"type": "ExitedReviewMode", "id": "e", "review_output": None},
        {
            "type": "CollabAgentToolCall",
            "id": "a",
            "tool": "spawn_agent",
            "sender_thread_id": THREAD,
            "status": "completed",
            "receiver_thread_ids": ["x"],
            "agents_states": {"x": {"completed": "done"}, "y": "running"},
        },
        {"type": "SubAgentActivity", "id": "s", "kind": "started", "agent_thread_id": "x", "agent_path": "/root/a"},
        {
            "type": "CommandExecution",
            "id": "c",
            "command": ["bash", "-lc", "cat a"],
            "cwd": "file:///work",
            "parsed_cmd": [{"type": "read", "cmd": "cat a", "name": "a", "path": "a"}],
            "source": "unified_exec_startup",
            "status": "completed",
            "aggregated_output": "hi",
            "exit_code": 0,
            "duration": {"secs": 1, "nanos": 5_000_000},
        },
    ],
    ids=lambda item: item["type"],
)  # fmt: skip
def test_item_fits_the_schema(item: dict[str, Any]) -> None:
    started, completed = translated(ItemCompletedEvent(THREAD, "t1", item, 5))
    assert started["method"] == "item/started"
    assert completed["params"]["item"]["id"] == item["id"]


def test_messages_and_waits_of_a_turn_that_goes_on_are_shown_as_such() -> None:
    question = {"title": "Why?", "options": None}
    asked: dict[str, Any] = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "Why?"}]}
    asked |= {"phase": "final_answer", "delivery": "async", "questions": [question]}
    waits = {"type": "Extension", "kind": "clock.sleep", "id": "s", "durationMs": 50}
    events = [ItemCompletedEvent(THREAD, "t1", item, 5) for item in (asked, waits)]
    message, sleep = [note["params"]["item"] for note in translated(*events) if note["method"] == "item/completed"]
    assert (message["delivery"], message["questions"], message["text"]) == ("async", [question], "Why?")
    assert (sleep["type"], sleep["durationMs"]) == ("sleep", 50)
    assert translated(ItemCompletedEvent(THREAD, "t1", {**waits, "kind": "other"}, 5)) == []


def test_file_url_and_relative_path_become_absolute_paths() -> None:
    command = {
        "type": "CommandExecution",
        "id": "c",
        "command": ["cat", "a"],
        "cwd": "file:///my%20work",
        "parsed_cmd": [{"type": "read", "cmd": "cat a", "name": "a", "path": "a"}],
    }
    shown = translated(ItemCompletedEvent(THREAD, "t1", command, 5))[-1]["params"]["item"]
    assert shown["cwd"] == "/my work"
    assert shown["commandActions"][0]["path"] == "/my work/a"


def test_a_command_is_quoted_as_codex_quotes_it() -> None:
    command = {"type": "CommandExecution", "id": "c", "command": ["bash", "-c", "echo 'a'"], "cwd": "/work"}
    shown = translated(ItemCompletedEvent(THREAD, "t1", command, 5))[-1]["params"]["item"]
    assert shown["command"] == shown["commandActions"][0]["command"] == """bash -c "echo 'a'\""""


def test_call_of_a_plugins_tool_is_shown_once_and_with_its_time() -> None:
    begin = ToolCallBeginEvent(**CALL, started_at_ms=1)
    end = ToolCallEndEvent(**CALL, output="found", success=True, duration_s=1.5)
    started, completed = translated(begin, end)
    assert started["params"]["item"]["arguments"] == {"id": 7}
    assert completed["params"]["item"]["durationMs"] == 1500
    assert completed["params"]["item"]["status"] == "completed"
    assert translated(begin.evolve(tool="apply_patch"), end.evolve(tool="apply_patch")) == []


def test_failed_turn_has_its_error() -> None:
    *_, ended = translated(ErrorEvent("no", "other"), TurnCompleteEvent("t1"))
    assert ended["params"]["turn"]["status"] == "failed"
    assert ended["params"]["turn"]["error"]["message"] == "no"


def test_next_turn_forgets_the_last_one() -> None:
    message = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "hi"}]}
    *_, ended = translated(
        ItemCompletedEvent(THREAD, "t1", message, 5),
        ErrorEvent("no", "other"),
        TurnCompleteEvent("t1"),
        TurnStartedEvent("t2", 2),
        TurnCompleteEvent("t2"),
    )
    assert ended["params"]["turn"]["status"] == "completed"
    assert ended["params"]["turn"]["items"] == []
