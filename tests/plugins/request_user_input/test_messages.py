"""Messages and questions in the middle of a turn: what the user sees, what the model gets, and who is offered the tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import ModelCatalogue, ModelInfo, ProviderInfo
from codex_framework.testing import Offer, Reply, call, say, turn_facts
from codex_plugin_request_user_input.messages import RequestUserInputAsync, SendMessageToUserAsync


class Catalogue(ModelCatalogue):
    name = "talkative"

    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo:
        return ModelInfo(slug=slug, extra_tools=("request_user_input_async", "send_message_to_user_async"))


ACCEPTED = '{"accepted":true}'


def run_call(make_kernel: Any, given: Reply) -> Any:
    """Return the output of a call, the shown messages, and the item of the first one if it is the call's."""

    async def main() -> Any:
        plugins = [Offer(name="talkative", catalogues=[Catalogue()])]
        async with make_kernel([given, say("done")], plugins=plugins) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            result = await thread.run("Go!")
            (output,) = [item.output for item in thread.history.items if item.type == "function_call_output"]
            shown = [event.message for event in result.events if event.type == "agent_message"]
            items = [event.item for event in result.events if event.type == "item_completed"]
            return output, shown, next((item for item in items if item["id"] == "call_1_1"), None), result.final_message

    return asyncio.run(main())


def test_a_message_is_shown_at_once_and_the_turn_goes_on(make_kernel: Any) -> None:
    output, shown, item, final = run_call(
        make_kernel, call("send_message_to_user_async", message=" The disk is full. ")
    )
    assert (output, shown, final) == (ACCEPTED, ["The disk is full.", "done"], "done")
    assert item == {
        "type": "AgentMessage",
        "id": "call_1_1",
        "content": [{"type": "Text", "text": "The disk is full."}],
        "phase": "final_answer",
        "delivery": "async",
    }


def test_questions_are_shown_as_one_message_with_their_options(make_kernel: Any) -> None:
    questions = [{"title": "Which one?", "options": ["a", "b"]}, {"title": "Why?"}]
    output, shown, item, _ = run_call(make_kernel, call("request_user_input_async", questions=questions))
    assert (output, shown[0]) == (ACCEPTED, "Which one?\n- a\n- b\n\nWhy?")
    assert (item["phase"], item["delivery"]) == ("final_answer", "async")
    assert item["questions"] == [{"title": "Which one?", "options": ["a", "b"]}, {"title": "Why?", "options": None}]


NO_OPTION = "options must contain at least one non-empty answer"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (call("send_message_to_user_async", message=" \n"), "message must not be empty"),
        (call("request_user_input_async", questions=[]), "questions must not be empty"),
        (
            call("request_user_input_async", questions=[{"title": "A?"}, {"title": " "}]),
            "question titles must not be empty",
        ),
        (call("request_user_input_async", questions=[{"title": "A?", "options": []}]), NO_OPTION),
        (call("request_user_input_async", questions=[{"title": "A?", "options": ["a", " "]}]), NO_OPTION),
        (
            call("request_user_input_async", questions=[{"title": "A?"}, {"title": "B?", "options": [" "]}]),
            NO_OPTION,
        ),
    ],
)
def test_what_says_nothing_is_refused_and_not_shown(make_kernel: Any, given: Reply, text: str) -> None:
    output, shown, item, _ = run_call(make_kernel, given)
    assert (output, shown, item) == (text, ["done"], None)


MESSAGES = ("send_message_to_user_async",)
QUESTIONS = ("request_user_input_async",)
OFF = {"tools": {"experimental_request_user_input": {"enabled": False}}}
ON = {"features": {"send_message_to_user_async": True}}


@pytest.mark.parametrize(
    ("known", "depth", "config", "offered"),
    [
        ((), 0, {}, (False, False)),
        (MESSAGES, 0, {}, (True, False)),
        (QUESTIONS, 0, {}, (False, True)),
        (("send_user_message_async",), 0, {}, (False, True)),
        (MESSAGES + QUESTIONS, 0, OFF, (True, False)),
        (MESSAGES + QUESTIONS, 0, {"features": {"send_message_to_user_async": False}}, (True, True)),
        ((), 0, ON, (True, False)),
        (MESSAGES + QUESTIONS, 1, {}, (False, False)),
        ((), 1, ON, (False, False)),
    ],
)
def test_models_that_know_the_tools_and_work_for_the_user_are_offered_them(
    known: tuple[str, ...], depth: int, config: dict[str, Any], offered: tuple[bool, bool]
) -> None:
    facts = turn_facts(model=ModelInfo(slug="m", extra_tools=known), depth=depth, config=config)
    assert (SendMessageToUserAsync().offered(facts), RequestUserInputAsync().offered(facts)) == offered
