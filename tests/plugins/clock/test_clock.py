"""The tools of ``clock``: who is offered them, how long a wait takes, and what ends it early."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from codex_framework import ModelCatalogue, ModelInfo, ProviderInfo
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_framework.contract.protocol.items import FunctionCall
from codex_framework.testing import Offer, Reply, reply, say, turn_facts
from codex_plugin_clock.tools import CurrentTime, Sleep


class Catalogue(ModelCatalogue):
    name = "watch"

    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo:
        return ModelInfo(slug=slug, extra_tools=("clock",))


KNOWING = {"plugins": [Offer(name="watch", catalogues=[Catalogue()])]}


def clock(name: str, **arguments: Any) -> Reply:
    return reply(FunctionCall(name, json.dumps(arguments), "", namespace="clock"))


def run_call(make_kernel: Any, call: Reply) -> Any:
    """Return the output of a call, and the events of its turn."""

    async def main() -> Any:
        async with make_kernel([call, say("done")], **KNOWING) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            result = await thread.run("Go!")
            (output,) = [item.output for item in thread.history.items if item.type == "function_call_output"]
            return output, result.events

    return asyncio.run(main())


def sleeps(events: Any) -> list[tuple[str, dict[str, Any]]]:
    items = (ItemStartedEvent, ItemCompletedEvent)
    return [
        (event.type, {**event.item})
        for event in events
        if isinstance(event, items) and event.item["type"] == "Extension"
    ]


def test_a_wait_takes_its_time_and_clients_see_it(make_kernel: Any) -> None:
    output, events = run_call(make_kernel, clock("sleep", duration_ms=20))
    found = re.fullmatch(r"Wall time: (\d+\.\d{4}) seconds\nSleep completed\.", output)
    assert found
    assert float(found[1]) >= 0.02
    item = {"type": "Extension", "kind": "clock.sleep", "id": "call_1_1", "durationMs": 20}
    assert sleeps(events) == [("item_started", item), ("item_completed", item)]


def test_a_message_of_the_user_ends_the_wait(make_kernel: Any) -> None:
    async def main() -> Any:
        replies = [clock("sleep", duration_ms=43_200_000), say("done")]
        async with make_kernel(replies, **KNOWING) as kernel, asyncio.timeout(60):
            thread = await kernel.start_thread()
            listener = thread.events()
            thread.start("Go!")
            async for event in listener:
                if sleeps([event.msg]) and event.msg.type == "item_started":
                    thread.steer("Stop waiting.")
                if event.msg.type == "task_complete":
                    break
            return [getattr(item, "output", item.type) for item in thread.history.items][-3:]

    output, message, answer = asyncio.run(main())
    assert output.endswith(" seconds\nSleep interrupted by new input.")
    assert (message, answer) == ("message", "message")


@pytest.mark.parametrize("duration_ms", [0, 43_200_001])
def test_a_wait_of_no_time_or_more_than_half_a_day_is_refused(make_kernel: Any, duration_ms: int) -> None:
    output, events = run_call(make_kernel, clock("sleep", duration_ms=duration_ms))
    assert output == "duration_ms must be between 1 and 43200000"
    assert sleeps(events) == []


def test_the_longest_wait_can_be_interrupted_with_the_turn(make_kernel: Any) -> None:
    async def main() -> Any:
        async with make_kernel([clock("sleep", duration_ms=43_200_000)], **KNOWING) as kernel, asyncio.timeout(60):
            thread = await kernel.start_thread()
            listener = thread.events()
            thread.start("Go!")
            events = []
            async for event in listener:
                events.append(event.msg)
                if sleeps([event.msg]) and event.msg.type == "item_started":
                    await thread.interrupt()
                if event.msg.type == "turn_aborted":
                    break
            return [kind for kind, _ in sleeps(events)]

    assert asyncio.run(main()) == ["item_started", "item_completed"]


def test_the_time_is_told_in_utc_and_to_the_model_alone(make_kernel: Any) -> None:
    output, events = run_call(make_kernel, clock("curr_time"))
    assert re.fullmatch(r"It is \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", output)
    assert not [event for event in events if "tool_call" in event.type]


@pytest.mark.parametrize(
    ("model", "config", "offered"),
    [
        (ModelInfo(slug="m", extra_tools=("clock",)), {}, True),
        (ModelInfo(slug="m", extra_tools=("clock",)), {"features": {"sleep_tool": True}}, True),
        (ModelInfo(slug="m", extra_tools=("clock",)), {"features": {"sleep_tool": False}}, False),
        (ModelInfo(slug="m", extra_tools=("clock",)), {"features": {"sleep_tool": {"enabled": False}}}, False),
        (ModelInfo(slug="m", extra_tools=("clock",)), {"features": {"sleep_tool": {"mode": "x"}}}, True),
        (ModelInfo(slug="m"), {"features": {"sleep_tool": True}}, False),
    ],
)
def test_only_models_that_know_the_clock_are_offered_it(
    model: ModelInfo, config: dict[str, Any], *, offered: bool
) -> None:
    facts = turn_facts(model=model, config=config)
    assert [tool.offered(facts) for tool in (Sleep(), CurrentTime())] == [offered, offered]


def test_programs_of_the_model_read_the_time_but_do_not_wait() -> None:
    assert (Sleep.spec.model_only, CurrentTime.spec.model_only) == (True, False)
