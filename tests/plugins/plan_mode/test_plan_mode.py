"""Plan mode: instructions, proposed plans, what is refused, and the way in and out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework.contract.protocol.events import ErrorEvent, ItemCompletedEvent, TurnStartedEvent
from codex_framework.contract.protocol.items import message_text
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import CollaborationMode, CollaborationSettings
from codex_framework.contract.protocol.wire import read
from codex_framework.testing import call, say
from codex_plugin_plan_mode import PlanDeltaEvent
from codex_plugin_plan_mode.interceptor import proposed_plan

PLAN = CollaborationMode("plan")
MESSAGE = "Here it is.\n<proposed_plan>\n# Title\n\n- Step\n</proposed_plan>\n"


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


def test_a_proposed_plan_is_an_item_and_stays_in_the_conversation(make_kernel: Any) -> None:
    (result,), _, thread = run(make_kernel, [say(MESSAGE)], PLAN)
    (delta,) = [event for event in result.events if isinstance(event, PlanDeltaEvent)]
    items = [event.item for event in result.events if isinstance(event, ItemCompletedEvent)]
    (plan,) = [item for item in items if item["type"] == "Plan"]
    assert plan == {"type": "Plan", "id": delta.item_id, "text": "# Title\n\n- Step"}
    assert delta.item_id.endswith("-plan")
    assert message_text(thread.history.items[-1]) == MESSAGE


def test_in_default_mode_the_tags_mean_nothing(make_kernel: Any) -> None:
    (result,), _, _ = run(make_kernel, [say(MESSAGE)], None)
    assert not any(isinstance(event, PlanDeltaEvent) for event in result.events)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("no plan", None),
        ("<proposed_plan>\n\n</proposed_plan>", None),
        ("text <proposed_plan>inline</proposed_plan>", None),
        ("<proposed_plan>\nopen", "open"),
        ("  <proposed_plan>  \na\n </proposed_plan>\nrest", "a"),
        ("<proposed_plan>\na\n</proposed_plan>\n<proposed_plan>\nb\n</proposed_plan>", "b"),
        ("<proposed_plan>\n\n  indented\n\n</proposed_plan>", "  indented"),
    ],
)
def test_plans_are_read_from_messages(text: str, plan: str | None) -> None:
    assert proposed_plan(text) == plan


def test_the_checklist_is_refused_in_plan_mode_only(make_kernel: Any) -> None:
    replies = [call("update_plan", plan=[]), say("x"), call("update_plan", plan=[]), say("y")]
    _, _, thread = run(make_kernel, replies, PLAN, CollaborationMode("default"))
    outputs = [item.output for item in thread.history.items if item.type == "function_call_output"]
    assert outputs == ["update_plan is a TODO/checklist tool and is not allowed in Plan mode", "Plan updated"]


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
