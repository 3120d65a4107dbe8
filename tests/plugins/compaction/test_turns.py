"""Compaction in whole turns: on request, before a turn, between two samples, and when the window overflows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from codex_framework import Status
from codex_framework.contract.protocol.events import (
    BackgroundEvent,
    ContextCompactedEvent,
    ErrorEvent,
    TokenCountEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.protocol.ops import TextInput, ThreadSettings, ThreadSettingsOverrides, UserInputOp
from codex_framework.testing import Offer, call, fault, reply, say
from codex_plugin_compaction import Compact
from codex_plugin_openai.provider import ResponsesProvider
from codex_plugin_undo import ThreadRollback

DONE = ["task_started", "item_started", "item_completed", "context_compacted", "task_complete"]
LIMIT = "model_auto_compact_token_limit=900"
OVERFLOW = fault(400, body={"error": {"code": "context_length_exceeded", "message": "Too long."}})
FULL = (
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
)


def _is_of_compaction(event: Any) -> bool:
    return event.type in ("item_started", "item_completed") and event.item["type"] == "ContextCompaction"


def kinds(events: Iterable[Any]) -> list[str]:
    return [event.type for event in events if event.type != "token_count"]


def texts(events: Sequence[Any], kind: type) -> list[str]:
    return [event.message for event in events if isinstance(event, kind)]


# On request


def test_the_history_becomes_the_words_of_people_and_a_summary(scene, conversation, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        events = await carry_out(thread, Compact())
        await thread.run("How are you?")
        return events

    events = scene.play(story, [say("Hello."), say("They greeted."), say("Fine.")])
    first, summarising, after = scene.asked
    assert conversation(summarising["input"]) == [
        ("context", ""),
        ("user", "Hi!"),
        ("assistant", "Hello."),
        ("user", "PROMPT"),
    ]
    assert summarising["input"][: len(first["input"])] == first["input"], "the server's cache of the prompt is used"
    assert not summarising.get("tools")
    assert summarising["parallel_tool_calls"] is False
    assert (summarising["model"], summarising["instructions"]) == (first["model"], first["instructions"])
    assert conversation(after["input"]) == [
        ("user", "Hi!"),
        ("user", "PREFIX\nThey greeted."),
        ("context", ""),
        ("user", "How are you?"),
    ]
    assert after["tools"] == first["tools"]
    assert kinds(events) == DONE
    began, ended = [event for event in events if event.type.startswith("item_")]
    assert began.item == ended.item == {"type": "ContextCompaction", "id": began.item["id"]}
    assert began.item["id"]
    assert (began.thread_id, began.turn_id) == (ended.thread_id, ended.turn_id)
    assert began.turn_id == events[0].turn_id
    assert began.started_at_ms <= ended.completed_at_ms


def test_clients_hear_how_long_the_history_is_afterwards(scene, carry_out, used):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await carry_out(thread, Compact())

    events = scene.play(story, [used(say("Hello."), 5000), used(say("They greeted."), 5100)])
    *_, last = [event.info for event in events if isinstance(event, TokenCountEvent)]
    assert 0 < last.last_token_usage.total_tokens < 1000
    assert last.total_token_usage.total_tokens == 5000 + 5100


def test_there_is_nothing_to_compact_before_the_first_turn(scene, carry_out):
    async def story(kernel):
        return await carry_out(await kernel.start_thread(), Compact())

    assert texts(scene.play(story, []), ErrorEvent) == ["there is nothing to compact yet. Start a turn first."]


def test_it_takes_the_place_of_a_turn_that_runs(scene, conversation, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        running = asyncio.ensure_future(thread.run("Hi!"))
        await asyncio.to_thread(scene.server.wait_for, 1)
        events = await carry_out(thread, Compact())
        return (await running).outcome, events

    outcome, events = scene.play(story, [fault(hang_s=30.0), say("They greeted.")])
    assert (outcome.status, outcome.reason) == (Status.INTERRUPTED, "replaced")
    assert kinds(events) == DONE
    assert conversation(scene.asked[1]["input"]) == [("context", ""), ("user", "Hi!"), ("user", "PROMPT")]


def test_input_is_refused_while_it_runs(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        events = thread.events()
        await thread.submit(Compact())
        await asyncio.to_thread(scene.server.wait_for, 2)
        await thread.submit(UserInputOp((TextInput("Wait!"),)), id="input")
        await thread.shutdown()
        return [event.msg async for event in events if event.id == "input"]

    (refused,) = scene.play(story, [say("Hello."), fault(hang_s=30.0)])
    assert refused.message.startswith("cannot steer a compact turn")


def test_an_interrupt_leaves_the_history_as_it_is(scene, conversation):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        before = list(thread.history.items)
        await thread.submit(Compact())
        await asyncio.to_thread(scene.server.wait_for, 2)
        await thread.interrupt()
        outcome = await thread.settled()
        assert list(thread.history.items)[: len(before)] == before
        await thread.run("Go on.")
        return outcome

    outcome = scene.play(story, [say("Hello."), fault(hang_s=30.0), say("Fine.")])
    assert (outcome.status, outcome.reason) == (Status.INTERRUPTED, "interrupted")
    shown = conversation(scene.asked[2]["input"])
    assert [role for role, _ in shown] == ["context", "user", "assistant", "user", "user"]
    assert shown[3][1].startswith("<turn_aborted>")


def test_a_failure_fails_the_turn_and_leaves_the_history(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        before = list(thread.history.items)
        events = await carry_out(thread, Compact())
        assert list(thread.history.items) == before
        return events, await thread.settled()

    events, outcome = scene.play(story, [say("Hello."), fault(400, body="no summaries here")])
    assert kinds(events) == ["task_started", "item_started", "error", "task_complete"]
    assert texts(events, ErrorEvent) == ["no summaries here"]
    assert outcome.status is Status.FAILED


def test_a_response_that_breaks_off_is_asked_for_again(scene, conversation, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, Compact())
        return list(thread.history.items)

    history = scene.play(story, [say("Hello."), say("They") + fault(after=2), say("They greeted.")], retries=1)
    assert len(scene.asked) == 3
    assert scene.asked[1]["input"] == scene.asked[2]["input"]
    assert [getattr(item, "role", "") for item in history] == ["user", "user"]


def test_a_model_that_says_nothing_leaves_a_word_in_place_of_the_summary(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, Compact())
        return thread.history.items[-1].content[0].text

    assert scene.play(story, [say("Hello."), reply()]).endswith(":\n(no summary available)")


def test_the_summary_need_not_follow_the_schema_of_the_turn(scene, used):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

    async def story(kernel):
        thread = await kernel.start_thread()
        return await thread.run("Hi!", output_schema=schema)

    replies = [used(call("update_plan", plan=[]), 1000), say("They greeted."), say('{"a": "b"}')]
    assert scene.play(story, replies, LIMIT).final_message == '{"a": "b"}'
    assert ["format" in body["text"] for body in scene.asked] == [True, False, True]


# Before a turn


def test_a_full_history_is_compacted_before_the_next_turn(scene, conversation, used):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await thread.run("How are you?")

    result = scene.play(story, [used(say("Hello."), 900), say("They greeted."), say("Fine.")], LIMIT)
    assert result.final_message == "Fine."
    assert conversation(scene.asked[2]["input"]) == [
        ("user", "Hi!"),
        ("user", "PREFIX\nThey greeted."),
        ("context", ""),
        ("user", "How are you?"),
    ]
    assert kinds(result.events).count("context_compacted") == 1
    began, ended = [
        event.item for event in result.events if getattr(event, "item", {}) and "ContextCompaction" in str(event.item)
    ]
    assert began == ended
    assert began["id"]


@pytest.mark.parametrize(("tokens", "requests"), [(899, 2), (900, 3)])
@pytest.mark.parametrize(
    "setting", ["model_context_window=1000", LIMIT, "model_auto_compact_token_limit=900,model_context_window=4000"]
)
def test_the_limit_is_that_of_the_configuration_or_nine_tenths_of_the_window(scene, used, tokens, requests, setting):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await thread.run("How are you?")

    replies = [used(say("Hello."), tokens), say("A greeting."), say("Fine.")]
    if requests == 2:
        del replies[1]
    scene.play(story, replies, *setting.split(","))
    assert len(scene.asked) == requests


class Sized(ResponsesProvider):
    """The bundled provider with models of three sizes."""

    name = "sized"

    def model(self, slug: str) -> Any:
        return super().model("gpt-5.5").evolve(slug=slug, context_window={"small": 1000, "big": 4000}[slug])


@pytest.mark.parametrize("resumed", [False, True])
def test_the_larger_model_writes_the_summary_for_a_smaller_one(scene, conversation, used, resumed):
    async def story(kernel):
        thread = await kernel.start_thread(model="big")
        await thread.run("Hi!")
        if resumed:
            await thread.shutdown()
            thread = await kernel.resume_thread(thread.id, model="small")
        else:
            overrides = ThreadSettingsOverrides(model="small")
            await thread.submit(ThreadSettings(overrides))
        return await thread.run("How are you?")

    replies = [used(say("Hello."), 3000), say("They greeted."), say("Fine.")]
    plugins = [Offer(providers=[Sized()])]
    config = 'model_providers.here.wire_api="sized"', 'model="big"'
    assert scene.play(story, replies, *config, plugins=plugins).final_message == "Fine."
    assert [body["model"] for body in scene.asked] == ["big", "big", "small"]


class Related(ResponsesProvider):
    """The bundled provider with models named for what they share, a dash, and another letter."""

    name = "related"

    def model(self, slug: str) -> Any:
        model = super().model("gpt-5.6-sol").evolve(slug=slug, compaction_hash=slug.partition("-")[0] or None)
        return model.evolve(efforts=() if slug == "x-plain" else ("low", "medium", "high", "max"), lite=False)


async def switch(kernel: Any, first: str, second: str, *, resumed: bool = False, effort: str | None = None) -> Any:
    """Run a turn of each model in one thread, and a third one of the second model."""
    thread = await kernel.start_thread(model=first)
    await thread.submit(ThreadSettings(ThreadSettingsOverrides(effort=effort)))
    await thread.run("Hi!")
    if resumed:
        await thread.shutdown()
        thread = await kernel.resume_thread(thread.id, model=second)
    else:
        await thread.submit(ThreadSettings(ThreadSettingsOverrides(model=second)))
    await thread.run("How are you?")
    return await thread.run("Bye!")


RELATED = {"plugins": [Offer(providers=[Related()])]}
RELATED_CONFIG = ('model_providers.here.wire_api="related"', 'model="x-a"')


@pytest.mark.parametrize("resumed", [False, True])
def test_a_model_of_another_hash_gets_a_summary_of_the_earlier_model(scene, conversation, resumed):
    replies = [say("Hello."), say("They greeted."), say("Fine."), say("Bye.")]
    scene.play(lambda kernel: switch(kernel, "x-a", "y-a", resumed=resumed), replies, *RELATED_CONFIG, **RELATED)
    assert [body["model"] for body in scene.asked] == ["x-a", "x-a", "y-a", "y-a"], "compacted once, by the earlier one"
    assert conversation(scene.asked[2]["input"]) == [
        ("user", "Hi!"),
        ("user", "PREFIX\nThey greeted."),
        ("context", ""),
        ("user", "How are you?"),
    ]


@pytest.mark.parametrize("models", [("x-a", "x-b"), ("-a", "y-a"), ("x-a", "-b"), ("-a", "-b")])
def test_models_of_the_same_hash_or_without_one_continue_the_conversation(scene, models):
    replies = [say("Hello."), say("Fine."), say("Bye.")]
    scene.play(lambda kernel: switch(kernel, *models), replies, *RELATED_CONFIG, **RELATED)
    assert [body["model"] for body in scene.asked] == [models[0], models[1], models[1]]


@pytest.mark.parametrize(
    ("model", "effort", "asked"),
    [
        ("x-a", None, "medium"),
        ("x-a", "high", "high"),
        ("x-a", "minimal", "medium"),
        ("x-plain", "minimal", "minimal"),
        ("x-plain", None, "low"),
    ],
)
def test_the_earlier_model_is_asked_with_an_effort_that_it_has(scene, model, effort, asked):
    replies = [say("Hello."), say("They greeted."), say("Fine."), say("Bye.")]
    scene.play(lambda kernel: switch(kernel, model, "y-a", effort=effort), replies, *RELATED_CONFIG, **RELATED)
    assert scene.asked[1]["reasoning"]["effort"] == asked


def test_an_empty_conversation_is_not_compacted_for_another_model(scene):
    async def story(kernel):
        thread = await kernel.start_thread(model="x-a")
        await thread.run("Hi!")
        await thread.submit(ThreadRollback(1))
        await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="y-a")))
        return await thread.run("How are you?")

    scene.play(story, [say("Hello."), say("Fine.")], *RELATED_CONFIG, **RELATED)
    assert [body["model"] for body in scene.asked] == ["x-a", "y-a"]


def test_a_failure_is_told_and_the_turn_goes_on(scene, used, conversation):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await thread.run("How are you?")

    result = scene.play(story, [used(say("Hello."), 1000), fault(400, body="no"), say("Fine.")], LIMIT)
    assert result.final_message == "Fine."
    assert texts(result.events, WarningEvent) == ["the conversation could not be compacted: no"]
    about = [event for event in result.events if event.type == "warning" or _is_of_compaction(event)]
    assert kinds(about) == ["item_started", "warning"], "the warning is the end of its item"
    assert [role for role, _ in conversation(scene.asked[2]["input"])] == ["context", "user", "assistant", "user"]


def test_an_interrupt_ends_the_turn_and_keeps_its_input(scene, used, conversation):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        running = asyncio.ensure_future(thread.run("How are you?"))
        await asyncio.to_thread(scene.server.wait_for, 2)
        await thread.interrupt()
        result = await running
        return result.events, result.outcome, [item.content[0].text for item in list(thread.history.items)[-3:]]

    events, outcome, last = scene.play(story, [used(say("Hello."), 1000), fault(hang_s=30.0)], LIMIT)
    assert kinds(event for event in events if _is_of_compaction(event)) == ["item_started"], "the turn's end is its end"
    assert outcome.status is Status.INTERRUPTED
    assert last[:2] == ["Hello.", "How are you?"]
    assert last[2].startswith("<turn_aborted>")


# Between two samples


def test_a_turn_goes_on_in_the_middle_with_its_context(scene, conversation, used):
    async def story(kernel):
        return await (await kernel.start_thread()).run("Compact.")

    replies = [
        used(call("exec_command", cmd="echo one"), 500),
        used(call("exec_command", cmd="echo two"), 1000),
        say("SUMMARY: did one and two."),
        used(call("exec_command", cmd="echo three"), 300),
        say("Done."),
    ]
    result = scene.play(story, replies, LIMIT)
    assert result.final_message == "Done."
    first, _, summarising, after, last = scene.asked
    assert [item["type"] for item in summarising["input"]][-5:] == [
        *("function_call", "function_call_output") * 2,
        "message",
    ]
    assert conversation(after["input"]) == [
        ("context", ""),
        ("user", "Compact."),
        ("user", "PREFIX\nSUMMARY: did one and two."),
    ]
    assert after["input"][: len(first["input"])] == first["input"], "context and words are as they were"
    assert last["input"][: len(after["input"])] == after["input"]
    assert result.outcome.usage.requests == 5


def test_a_turn_that_stays_above_the_limit_ends_with_an_error(scene, used):
    async def story(kernel):
        thread = await kernel.start_thread()
        return await thread.run("Go."), await thread.run("Again.")

    work = [used(call("exec_command", cmd="true", call_id=f"c{place}"), 950 + place) for place in range(2)]
    failed, next_turn = scene.play(story, [work[0], say("SUMMARY"), work[1], say("SUMMARY"), say("Done.")], LIMIT)
    text = (
        "Conversation is still above the token limit after automatic summarization (limit 900, current 951). "
        "Please start a new session or trim your input."
    )
    assert (failed.status, failed.outcome.error, failed.outcome.info) == ("failed", text, "context_window_exceeded")
    assert [event.message for event in failed.events if event.type == "error"] == [text]
    assert next_turn.final_message == "Done.", "the next turn may try again"


def test_a_sample_below_the_limit_permits_the_next_compaction(scene, used):
    async def story(kernel):
        return await (await kernel.start_thread()).run("Go.")

    work = [used(call("exec_command", cmd="true", call_id=f"c{n}"), n) for n in (950, 100, 951)]
    assert (
        scene.play(story, [work[0], say("SUMMARY"), *work[1:], say("SUMMARY"), say("Done.")], LIMIT).final_message
        == "Done."
    )


def test_a_summary_is_not_summarised_again_but_takes_the_place_of_the_one_before(scene, conversation, used, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        for prompt in ("One.", "Two."):
            await thread.run(prompt)
            await carry_out(thread, Compact())
        await thread.run("Three.")

    scene.play(story, [say("1"), say("First."), say("2"), say("Second."), say("3")])
    assert conversation(scene.asked[3]["input"]) == [
        ("user", "One."),
        ("user", "PREFIX\nFirst."),
        ("context", ""),
        ("user", "Two."),
        ("assistant", "2"),
        ("user", "PROMPT"),
    ]
    assert [text for _, text in conversation(scene.asked[4]["input"])] == [
        "One.",
        "Two.",
        "PREFIX\nSecond.",
        "",
        "Three.",
    ]


def test_input_that_was_steered_in_is_not_summarised_unseen(scene, conversation, used):
    async def story(kernel):
        thread = await kernel.start_thread()
        running = asyncio.ensure_future(thread.run("Hi!"))
        await asyncio.to_thread(scene.server.wait_for, 2)
        await thread.submit(UserInputOp((TextInput("Hurry!"),)))
        return await running

    slow = say("They greeted.").evolve(delay_s=0.5)
    replies = [used(call("exec_command", cmd="echo one"), 1000), slow, say("Done.")]
    assert scene.play(story, replies, LIMIT).final_message == "Done."
    assert "Hurry!" not in json.dumps(scene.asked[1])
    assert conversation(scene.asked[2]["input"]) == [
        ("context", ""),
        ("user", "Hi!"),
        ("user", "PREFIX\nThey greeted."),
        ("user", "Hurry!"),
    ]


# Overflow


def test_a_full_window_does_not_end_the_turn(scene, conversation):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await thread.run("How are you?")

    result = scene.play(story, [say("Hello."), OVERFLOW, say("They greeted."), say("Fine.")])
    assert (result.status, result.final_message) == (Status.COMPLETED, "Fine.")
    assert texts(result.events, ErrorEvent) == []
    assert conversation(scene.asked[3]["input"]) == [
        ("user", "Hi!"),
        ("context", ""),
        ("user", "How are you?"),
        ("user", "PREFIX\nThey greeted."),
    ]


def test_what_does_not_fit_is_left_out_of_the_summary_the_oldest_first_and_calls_with_their_output(
    scene, spoken, carry_out
):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Go!")
        return await carry_out(thread, Compact())

    replies = [call("exec_command", cmd="echo one"), say("Gone."), *[OVERFLOW] * 4, say("They went.")]
    result = scene.play(story, replies)
    tries = [[item["type"] for item in body["input"]] for body in scene.asked[2:]]
    whole = tries[0]
    assert [len(kinds) for kinds in tries] == [len(whole) - left for left in (0, 1, 2, 3, 5)]
    assert spoken(scene.asked[6]["input"])[:1] == [("assistant", "Gone.")]
    (told,) = texts(result, BackgroundEvent)
    assert told == "the summary does not cover the 5 oldest items, which did not fit"


@pytest.mark.parametrize(("overflows", "covered"), [(1, ["Gone.", "On!"]), (2, ["On!"])])
def test_a_request_that_does_not_fit_costs_few_requests_for_a_summary(scene, spoken, overflows, covered):
    async def story(kernel):
        thread = await kernel.start_thread()
        for text in ("Go!", "On!"):
            result = await thread.run(text)
        return result

    calls = [call("exec_command", cmd=f"seq {number} 4000") for number in range(8)]
    replies = [*calls, say("Gone."), OVERFLOW, *[OVERFLOW] * overflows, say("They went."), say("Fine.")]
    result = scene.play(story, replies)
    assert result.final_message == "Fine."
    sizes = [len(json.dumps(body["input"])) for body in scene.asked[10 : 11 + overflows]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] * 0.8**overflows
    said = [text for _, text in spoken(scene.asked[10 + overflows]["input"])]
    assert [text for text in said if text in ("Gone.", "On!")] == covered or set(covered) <= set(said)
    (told,) = texts(result.events, BackgroundEvent)
    assert "outputs of tools" in told


@pytest.mark.parametrize(("before", "most"), [(0, 2), (1, 4), (6, 4)])
def test_a_conversation_that_never_fits_fails_after_few_requests(scene, before, most):
    async def story(kernel):
        return await (await kernel.start_thread()).run("Hi!")

    calls = [call("exec_command", cmd=f"seq {number} 400") for number in range(before)]
    result = scene.play(story, [*calls, *[OVERFLOW] * 10])
    assert (result.status, result.error) == (Status.FAILED, FULL)
    assert len(scene.asked) - before <= most


def test_a_message_that_is_much_too_long_is_cut_if_it_does_not_fit(scene):
    async def story(kernel):
        return await (await kernel.start_thread()).run("word " * 40_000)

    result = scene.play(story, [OVERFLOW, OVERFLOW, say("They wrote."), say("Fine.")])
    assert result.final_message == "Fine."
    assert len(json.dumps(scene.asked[-1]["input"])) < len(json.dumps(scene.asked[0]["input"])) * 0.6


def test_a_second_overflow_fails_the_turn(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await thread.run("How are you?")

    result = scene.play(story, [say("Hello."), OVERFLOW, say("They greeted."), OVERFLOW])
    assert (result.status, result.error) == (Status.FAILED, FULL)


def test_a_window_that_not_even_the_prompt_fits_into_fails_the_turn(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        return await thread.run("Hi!"), thread.history.items

    result, history = scene.play(story, [OVERFLOW] * 10)
    assert (result.status, result.error) == (Status.FAILED, FULL)
    assert texts(result.events, WarningEvent) == [f"the conversation could not be compacted: {FULL}"]
    assert 1 < len(scene.asked) <= len(history) + 2


def test_without_the_plugin_a_full_window_ends_the_turn(scene):
    async def story(kernel):
        return await (await kernel.start_thread()).run("Hi!")

    result = scene.play(story, [OVERFLOW], 'framework.plugins.disabled=["compaction"]')
    assert (result.status, result.error) == (Status.FAILED, FULL)
    (count,) = (event for event in result.events if isinstance(event, TokenCountEvent))
    assert count.info.last_token_usage.total_tokens == count.info.model_context_window > 0
    assert count.info.total_token_usage.total_tokens == 0
    at, error = result.events.index(count), next(event for event in result.events if isinstance(event, ErrorEvent))
    assert at < result.events.index(error)


def test_no_event_but_that_of_the_compaction_tells_of_it(scene, used):
    """What the model writes for the summary is not shown as something that it says to the person."""

    async def story(kernel):
        return await (await kernel.start_thread()).run("Hi!")

    replies = [used(call("update_plan", plan=[]), 1000), say("SECRET"), say("Done.")]
    result = scene.play(story, replies, LIMIT)
    assert any(isinstance(event, ContextCompactedEvent) for event in result.events)
    assert "SECRET" not in repr(result.events)


def test_a_message_of_a_plugin_that_is_no_persons_stays_out(scene, conversation, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        thread.deliver([user_message("<subagent_notification>done</subagent_notification>")])
        await thread.run("On.")
        await carry_out(thread, Compact())
        return [item.content[0].text for item in thread.history.items]

    assert scene.play(story, [say("1"), say("2"), say("Short.")])[:2] == ["Hi!", "On."]
