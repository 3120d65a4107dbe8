from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events.turn import PlanStep, PlanUpdateEvent
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.testing import turn_facts
from codex_plugin_plan.tool import UpdatePlan


def call(open_thread: Callable[..., Any], arguments: str) -> tuple[str, list[Any]]:
    async def called() -> tuple[str, list[Any]]:
        async with open_thread() as thread:
            return await thread.call(UpdatePlan(), arguments), thread.events

    return asyncio.run(called())


def test_a_plan_is_shown(open_thread: Callable[..., Any]) -> None:
    arguments = {
        "explanation": "found more",
        "plan": [
            {"step": "look", "status": "completed"},
            {"step": "write", "status": "in_progress", "note": "ignored"},
            {"step": "test", "status": "pending"},
        ],
    }
    output, events = call(open_thread, json.dumps(arguments))
    assert output == "Plan updated"
    assert events == [
        PlanUpdateEvent(
            (PlanStep("look", "completed"), PlanStep("write", "in_progress"), PlanStep("test", "pending")),
            "found more",
        )
    ]


def test_an_empty_plan_clears_it(open_thread: Callable[..., Any]) -> None:
    assert call(open_thread, '{"plan": [], "explanation": null}') == ("Plan updated", [PlanUpdateEvent((), None)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            '{"plan": [{"step": "one", "status": "bogus"}]}',
            "unknown variant `bogus`, expected one of `pending`, `in_progress`, `completed` at line 1 column 43",
        ),
        ("{}", "missing field `plan` at line 1 column 2"),
        ('{"plan": [{"step": "one"}]}', "missing field `status` at line 1 column 25"),
        (
            '{"plan": [{"step": 1, "status": "pending"}]}',
            "invalid type: integer `1`, expected a string at line 1 column 20",
        ),
        ('{"plan": "x"}', 'invalid type: string "x", expected a sequence at line 1 column 12'),
        ('{"plan": ["x"]}', 'invalid type: string "x", expected a map at line 1 column 13'),
    ],
)
def test_a_plan_that_does_not_fit_is_told_why(open_thread: Callable[..., Any], arguments: str, message: str) -> None:
    with pytest.raises(ToolError) as caught:
        call(open_thread, arguments)
    assert str(caught.value) == f"failed to parse function arguments: {message}"


@pytest.mark.parametrize(
    ("tools", "offered"),
    [
        ({}, False),
        ({"update_plan": True}, True),
        ({"update_plan": False}, False),
        ({"update_plan": {}}, False),
        ({"update_plan": {"enabled": True}}, True),
        ({"update_plan": {"enabled": False}}, False),
    ],
)
def test_it_is_offered_only_if_it_is_enabled(tools: dict[str, Any], *, offered: bool) -> None:
    facts = turn_facts(model=ModelInfo(slug="m"), config={"tools": tools})
    assert UpdatePlan().offered(facts) is offered
