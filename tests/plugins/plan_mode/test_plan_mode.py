"""Plan mode: instructions, proposed plans, what is refused, and the way in and out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent
from codex_framework.contract.protocol.events import (
    AgentMessageContentDeltaEvent,
    AgentMessageEvent,
    ErrorEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.items import message_text
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import CollaborationMode, CollaborationSettings
from codex_framework.contract.protocol.wire import read
from codex_framework.testing import call, say
from codex_framework.testing.facts import turn_facts
from codex_plugin_plan_mode import PlanDeltaEvent
from codex_plugin_plan_mode.plan_view import PlanView

PLAN = CollaborationMode("plan")
MESSAGE = "Here it is.\n<proposed_plan>\n# Title\n\n- Step\n</proposed_plan>\nIs it good?"


def developer(request: Any) -> str:
    return "\n".join(message_text(item) for item in request.prompt.items if getattr(item, "role", "") == "developer")


def run(make_kernel: Any, replies: Any, *modes: Any, config: Any = ()) -> Any:
    """Run a turn in each mode, set by the op; None leaves it."""

    async def main() -> Any:
        async with make_kernel(replies, config=list(config)) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            results = []
            for mode in modes:
                if mode is not None:
                    await thread.submit(ThreadSettings(ThreadSettingsOverrides(collaboration_mode=mode)))
                results.append(await thread.run("Go!"))
            return results, kernel.model.requests, thread

    return asyncio.run(main())


def test_the_op_starts_and_ends_plan_mode(make_kernel: Any) -> None:
    replies = [say("one"), say("two"), say("three"), say("four")]
    results, requests, _ = run(make_kernel, replies, None, PLAN, None, CollaborationMode("default"))
    kinds = [
        event.collaboration_mode_kind
        for result in results
        for event in result.events
        if isinstance(event, TurnStartedEvent)
    ]
    assert kinds == ["default", "plan", "plan", "default"]
    texts = [developer(request) for request in requests]
    assert "<collaboration_mode>" not in texts[0]
    assert texts[1].count("You are in Plan mode.") == texts[2].count("You are in Plan mode.") == 1, "said once"
    assert texts[3].index("You are in Default mode.") > texts[3].index("You are in Plan mode.")


@pytest.mark.parametrize("deltas", [0, 1, 7, 60])
def test_a_proposed_plan_is_an_item_of_its_own_and_stays_in_the_conversation(make_kernel: Any, deltas: int) -> None:
    (result,), _, thread = run(make_kernel, [say(MESSAGE, deltas=deltas)], PLAN)
    pieces = [event for event in result.events if isinstance(event, PlanDeltaEvent)]
    items = [event.item for event in result.events if isinstance(event, ItemCompletedEvent)]
    plan, message = [item for item in items if item["type"] in ("Plan", "AgentMessage")]
    assert plan == {"type": "Plan", "id": f"{pieces[0].turn_id}-plan", "text": "# Title\n\n- Step\n"}
    assert message["content"] == [{"type": "Text", "text": "Here it is.\nIs it good?"}]
    assert "".join(piece.delta for piece in pieces) == plan["text"]
    assert {piece.item_id for piece in pieces} == {plan["id"]}
    shown = [event.delta for event in result.events if isinstance(event, AgentMessageContentDeltaEvent)]
    assert "".join(shown) == "Here it is.\nIs it good?"
    assert len(shown) > 3 or deltas < 60, "other text streams"
    begun = [event.item["type"] for event in result.events if isinstance(event, ItemStartedEvent)]
    order = ["AgentMessage", "Plan"] if deltas > 1 else ["Plan", "AgentMessage"]
    assert [kind for kind in begun if kind in ("Plan", "AgentMessage")] == order
    assert [event.message for event in result.events if isinstance(event, AgentMessageEvent)] == [
        "Here it is.\nIs it good?"
    ]
    assert result.final_message == "Here it is.\nIs it good?"
    assert message_text(thread.history.items[-1]) == MESSAGE


def test_a_message_that_is_only_a_plan_is_no_message_for_clients(make_kernel: Any) -> None:
    only = "\n<proposed_plan>\nx\n</proposed_plan>\n"
    (result,), _, _ = run(make_kernel, [say(only, deltas=9)], PLAN)
    items = [event.item for event in result.events if isinstance(event, ItemCompletedEvent | ItemStartedEvent)]
    assert {item["type"] for item in items} == {"UserMessage", "Plan"}
    assert result.final_message is None


def test_in_default_mode_the_tags_mean_nothing(make_kernel: Any) -> None:
    (result,), _, _ = run(make_kernel, [say(MESSAGE)], None)
    assert not any(isinstance(event, PlanDeltaEvent) for event in result.events)
    assert result.final_message == MESSAGE


def test_a_sub_agent_keeps_the_plan_in_its_answer(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say(MESSAGE)]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(collaboration_mode=PLAN)))
            await asyncio.sleep(0)
            child = await thread.conversation.context("x").spawn(Agent(name="a"))
            return await child.run("Go!")

    result = asyncio.run(main())
    assert result.final_message == MESSAGE


def test_the_mode_of_a_resumed_thread_is_that_of_its_last_turn(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("x"), say("y")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(collaboration_mode=PLAN)))
            await thread.run("Go!")
            await thread.shutdown()
            return await (await kernel.resume_thread(thread.id)).run("And?")

    (started,) = [event for event in asyncio.run(main()).events if isinstance(event, TurnStartedEvent)]
    assert started.collaboration_mode_kind == "plan"


class Turn:
    """The part of a turn that a view uses."""

    def __init__(self) -> None:
        self.facts = turn_facts(thread_id="T", turn_id="t")
        self.events: list[Any] = []

    def emit(self, event: Any) -> None:
        self.events.append(event)


def viewed(pieces: Iterable[str]) -> tuple[str, str | None]:
    """What clients see as the message, and as the plan. None means that there is none."""
    turn: Any = Turn()
    view = PlanView(turn)
    shown = "".join([view.feed(piece) for piece in pieces]) + view.end()
    plans = [event.item["text"] for event in turn.events if isinstance(event, ItemCompletedEvent)]
    return shown, plans[0] if plans else None


CASES = [
    ("no plan", "no plan", None),
    ("<proposed_plan>\n\n</proposed_plan>\nA", "A", "\n"),
    ("<proposed_plan>\n</proposed_plan>", "", None),
    ("text <proposed_plan>inline</proposed_plan>\n", "text <proposed_plan>inline</proposed_plan>\n", None),
    ("<proposed_plan>one line</proposed_plan>\nB", "<proposed_plan>one line</proposed_plan>\nB", None),
    ("A\n<proposed_plan>\nopen\nmore", "A\n", "open\nmore"),
    ("  \n\n  <proposed_plan>  \nx\n  </proposed_plan>  \n tail", "  \n\n tail", "x\n"),
    ("<proposed_plan>\na\n</proposed_plan>\nmid\n<proposed_plan>\nb\n</proposed_plan>\n", "mid\n", "b\n"),
    ("<proposed_plan>\nq</proposal>\n</proposed_plan> x\n</proposed_plan>\n", "", "q</proposal>\n</proposed_plan> x\n"),
    ("A\r\n<proposed_plan>\r\na\u2028b\r\n</proposed_plan>\r\nB", "A\r\nB", "a\u2028b\r\n"),
    ("A\n<proposed_pl", "A\n<proposed_pl", None),
    ("</proposed_plan>\nA", "</proposed_plan>\nA", None),
    (" " * 300 + "<proposed_plan>\nA", " " * 300 + "<proposed_plan>\nA", None),
]


@pytest.mark.parametrize(("text", "message", "plan"), CASES)
def test_plans_are_found_wherever_the_text_is_cut(text: str, message: str, plan: str | None) -> None:
    """The texts and what comes of them were measured with Codex 0.169."""
    assert viewed([text]) == viewed(text) == (message, plan)
    for place in range(len(text)):
        assert viewed([text[:place], text[place:]]) == (message, plan)


def test_the_checklist_is_refused_in_plan_mode_only(make_kernel: Any) -> None:
    replies = [call("update_plan", plan=[]), say("x"), call("update_plan", plan=[]), say("y")]
    config = ["tools.update_plan={enabled=true}"]
    _, _, thread = run(make_kernel, replies, PLAN, CollaborationMode("default"), config=config)
    outputs = [item.output for item in thread.history.items if item.type == "function_call_output"]
    assert outputs == ["update_plan is a TODO/checklist tool and is not allowed in Plan mode", "Plan updated"]


def test_the_configuration_has_an_effort_for_plan_mode(make_kernel: Any) -> None:
    config = ['plan_mode_reasoning_effort="high"', 'model_reasoning_effort="low"']
    own = CollaborationMode("plan", CollaborationSettings(None, "minimal", None))
    modes = (PLAN, CollaborationMode("default"), own)
    _, requests, _ = run(make_kernel, [say("x"), say("y"), say("z")], *modes, config=config)
    assert [request.reasoning_effort for request in requests] == ["high", "low", "minimal"]
    _, (request,), _ = run(make_kernel, [say("x")], PLAN, config=config[1:])
    assert request.reasoning_effort == "low"


def test_the_mode_brings_its_model_effort_and_instructions(make_kernel: Any) -> None:
    mode = CollaborationMode("plan", CollaborationSettings("gpt-5.4", "high", "Think first."))
    _, (request,), _ = run(make_kernel, [say("x")], mode)
    assert (request.model.slug, request.reasoning_effort) == ("gpt-5.4", "high")
    assert "<collaboration_mode>Think first.</collaboration_mode>" in developer(request)
    assert "You are in Plan mode" not in developer(request)


def test_the_instructions_can_be_switched_off(make_kernel: Any) -> None:
    config = ["include_collaboration_mode_instructions=false"]
    _, (request,), _ = run(make_kernel, [say("x")], PLAN, config=config)
    assert "collaboration_mode" not in developer(request)


@pytest.mark.parametrize("word", ["code", "pair_programming", "execute", "custom"])
def test_older_names_mean_the_default_mode(make_kernel: Any, word: str) -> None:
    (result,), _, _ = run(make_kernel, [say("x")], CollaborationMode(word))
    (started,) = [event for event in result.events if isinstance(event, TurnStartedEvent)]
    assert started.collaboration_mode_kind == "default"


@pytest.mark.parametrize("mode", [CollaborationMode("nope"), CollaborationMode(""), CollaborationMode(5), "plan"])
def test_an_unknown_mode_is_refused_and_nothing_changes(make_kernel: Any, mode: Any) -> None:
    async def main() -> Any:
        async with make_kernel([say("x")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            listener = thread.events()
            overrides = ThreadSettingsOverrides(collaboration_mode=mode, model="other")
            await thread.submit(ThreadSettings(overrides))
            await thread.run("Go!")
            await thread.shutdown()
            errors = [event.msg.message async for event in listener if isinstance(event.msg, ErrorEvent)]
            return errors, thread.settings.model

    errors, model = asyncio.run(main())
    assert len(errors) == 1
    assert "mode" in errors[0]
    assert model != "other"


@pytest.mark.parametrize("tag", ["override_turn_context", "thread_settings"])
def test_the_wire_form_of_a_mode_is_read(make_kernel: Any, tag: str) -> None:
    mode = {"mode": "plan", "settings": {"model": "gpt-5.4", "reasoning_effort": None, "developer_instructions": None}}
    wire = {"type": tag, "collaboration_mode": mode}
    if tag == "thread_settings":
        wire = {"type": tag, "thread_settings": {"collaboration_mode": mode}}

    async def main() -> Any:
        async with make_kernel([say("x")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            fields = {name: value for name, value in wire.items() if name != "type"}
            op = (
                read(ThreadSettings, wire)
                if tag == "thread_settings"
                else thread.conversation.host.kernel("x").op(tag, **fields)
            )
            await thread.submit(op)
            await thread.run("Go!")
            return thread.settings.collaboration_mode, thread.settings.model

    found, model = asyncio.run(main())
    assert (found, model) == (CollaborationMode("plan", CollaborationSettings("gpt-5.4")), "gpt-5.4")


@pytest.mark.parametrize(
    ("recorded", "kind"),
    [
        (5, "default"),
        ({}, "default"),
        ({"mode": "nope"}, "default"),
        ({"mode": 5}, "default"),
        ({"mode": "plan", "settings": {"model": 5, "developer_instructions": ["x"]}}, "plan"),
        ({"mode": "plan", "settings": "x"}, "plan"),
    ],
)
def test_a_recorded_mode_that_cannot_be_read_does_not_stop_a_resume(make_kernel: Any, recorded: Any, kind: str) -> None:
    async def main() -> Any:
        async with make_kernel([say("x"), say("y")]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(collaboration_mode=PLAN)))
            await thread.run("Go!")
            path = Path(str(thread.conversation.context("x").path))
            await thread.shutdown()
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line in lines:
                if line["type"] == "turn_context":
                    line["payload"]["collaboration_mode"] = recorded
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            return await (await kernel.resume_thread(thread.id)).run("And?")

    (started,) = [event for event in asyncio.run(main()).events if isinstance(event, TurnStartedEvent)]
    assert started.collaboration_mode_kind == kind
