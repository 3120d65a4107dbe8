"""Compaction by the model's server: the request, the new history, and servers that refuse."""

from __future__ import annotations

import asyncio
import json

import pytest

from codex_framework import Status
from codex_framework.contract.protocol.events import ContextCompactedEvent, TokenCountEvent, WarningEvent
from codex_framework.contract.protocol.items import FunctionCallOutput, InputImage, Message, UnknownItem, user_message
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.testing import Offer, call, fault, reply, say
from codex_framework.threads.turn.compaction import _last_words
from codex_plugin_compaction import Compact
from codex_plugin_compaction.history import OMITTED_OUTPUT, fitted
from codex_plugin_openai.provider import ResponsesProvider
from codex_plugin_undo import ThreadRollback

LIMIT = "model_auto_compact_token_limit=900"
REMOTE = "model_providers.here.remote_compaction=true"
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
TRIGGER = {"type": "compaction_trigger"}
DONE = ["task_started", "item_started", "item_completed", "context_compacted", "task_complete"]


def compaction(**fields):
    return reply(UnknownItem({**SEALED, **fields}))


def kinds(events):
    return [event.type for event in events if event.type != "token_count"]


def warnings(events):
    return [event.message for event in events if isinstance(event, WarningEvent)]


def refused(reason):
    return f"The server did not compact the conversation, so the model summarises it: {reason}"


def compacting(carry_out, *more):
    """Say hello, compact, and go on."""

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        events = await carry_out(thread, Compact())
        for text in more:
            await thread.run(text)
        return events

    return story


def test_the_server_gets_the_turns_request_with_a_trigger_and_its_item_stays(scene, conversation, carry_out):
    events = scene.play(compacting(carry_out, "Good."), [say("Hello."), compaction(), say("Fine.")], REMOTE)
    first, compacted, after = scene.asked
    assert compacted["input"][-1] == TRIGGER
    assert conversation(compacted["input"][:-1]) == [("context", ""), ("user", "Hi!"), ("assistant", "Hello.")]
    same = set(first) - {"input", "client_metadata"}
    assert {key: compacted[key] for key in same} == {key: first[key] for key in same}, "tools included"
    assert after["input"][1] == SEALED
    assert conversation([after["input"][0], *after["input"][2:]]) == [
        ("user", "Hi!"),
        ("context", ""),
        ("user", "Good."),
    ]
    assert (kinds(events), warnings(events)) == (DONE, [])
    headers = [request.headers.get("x-codex-beta-features") for request in scene.server.requests]
    assert headers == ["remote_compaction_v2"] * 3


def test_within_a_turn_the_context_comes_before_the_users_message(scene, conversation, used):
    async def story(kernel):
        thread = await kernel.start_thread()
        return (await thread.run("Hi!")).usage

    replies = [used(call("update_plan", plan=[]), 1000), used(compaction(), 300), used(say("Done."), 50)]
    usage = scene.play(story, replies, REMOTE, LIMIT)
    assert scene.asked[2]["input"][-1] == SEALED
    assert conversation(scene.asked[2]["input"][:-1]) == [("context", ""), ("user", "Hi!")]
    assert usage.total_tokens == 1350, "the compaction counts"


def test_a_resumed_or_rolled_back_thread_still_has_the_item(scene, carry_out):
    thread_ids = []

    async def first(kernel):
        thread = await kernel.start_thread()
        thread_ids.append(thread.id)
        await thread.run("Hi!")
        await carry_out(thread, Compact())
        await thread.run("How are you?")

    scene.play(first, [say("Hello."), compaction(), say("Fine.")], REMOTE)
    before = scene.asked[2]["input"]
    (line,) = (line for line in map(json.loads, scene.rollout.read_text().splitlines()) if line["type"] == "compacted")
    assert line["payload"]["message"] == ""
    assert line["payload"]["replacement_history"][-1] == SEALED

    async def second(kernel):
        thread = await kernel.resume_thread(thread_ids[0])
        past = list((await anext(aiter(thread.events()))).msg.initial_messages)
        await thread.run("Good.")
        fork = await kernel.resume_thread(kernel.fork_thread(thread.id))
        await fork.run("Elsewhere.")
        await thread.submit(ThreadRollback(2))
        await thread.run("Again.")
        return past

    past = scene.play(second, [say("Indeed."), say("Here."), say("Yes.")], REMOTE)
    resumed, forked, rolled_back = (body["input"] for body in scene.asked)
    assert forked[: len(resumed)] == resumed
    assert resumed[: len(before)] == before
    assert SEALED in rolled_back
    assert "How are you?" not in json.dumps(rolled_back)
    assert any(isinstance(event, ContextCompactedEvent) for event in past)


def test_only_the_provider_that_wrote_the_item_gets_it(scene, carry_out, responses_server):
    there = responses_server([say("Hello."), say("Yes.")])
    table = f'model_providers.there={{name="there", base_url="{there.url}"}}'

    async def start(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return thread.id

    thread_id = scene.play(start, [], table, 'model_provider="there"')

    async def compact(kernel):
        await carry_out(await kernel.resume_thread(thread_id), Compact())

    async def go_on(kernel):
        await (await kernel.resume_thread(thread_id)).run("Good.")

    scene.play(compact, [compaction()], table, REMOTE)
    scene.play(go_on, [], table, 'model_provider="there"')
    assert SEALED not in there.requests[-1].json["input"]
    scene.play(go_on, [say("Fine.")], table, REMOTE)
    assert SEALED in scene.asked[0]["input"]


def test_a_message_of_images_is_not_taken_for_a_summary_without_words():
    image = Message("user", (InputImage("data:image/png;base64,AAAA"),))
    assert _last_words([user_message("Hi!"), image, UnknownItem(SEALED)], "") == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (fault(404, body={"error": {"message": "No such item."}}), "No such item."),
        (fault(404), "unexpected status 404 Not Found"),
        (fault(400, body="what?"), "what?"),
        (fault(422, body={"error": {"message": "No."}}), "unexpected status 422"),
        (say("A summary."), "its response has 0 compactions instead of one"),
        (reply(UnknownItem(SEALED), UnknownItem({**SEALED, "id": "cmp_2"})), "its response has 2 compactions"),
        (compaction(encrypted_content=""), "its compaction has no content"),
        (compaction(encrypted_content=["x"]), "its compaction has no content"),
        (reply(UnknownItem({"type": "compaction"})), "its compaction has no content"),
        (compaction(encrypted_content="x" * 1_100_000), "its compaction has 1100000 characters"),
    ],
)
def test_a_server_that_refuses_is_asked_once_and_the_model_writes_a_summary(
    scene, conversation, carry_out, answer, reason
):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        first = await carry_out(thread, Compact())
        return first, await carry_out(thread, Compact())

    replies = [say("Hello."), answer, say("They greeted."), say("They greeted twice.")]
    first, second = scene.play(story, replies, REMOTE)
    _, asked, *summaries = scene.asked
    assert asked["input"][-1] == TRIGGER
    assert [conversation(body["input"])[-1] for body in summaries] == [("user", "PROMPT")] * 2
    (warning,) = warnings(first)
    assert warning.startswith(refused(reason))
    assert [kind for kind in kinds(first) if kind != "warning"] == kinds(second) == DONE


def test_a_server_in_trouble_is_asked_again_the_next_time(scene, conversation, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return [await carry_out(thread, Compact()) for _ in range(2)]

    replies = [say("Hello."), fault(500, body={"error": {"message": "Oops."}}), say("They greeted."), compaction()]
    scene.play(story, replies, REMOTE)
    _, first, summary, second = scene.asked
    assert (first["input"][-1], second["input"][-1]) == (TRIGGER, TRIGGER)
    assert conversation(summary["input"])[-1] == ("user", "PROMPT")


class Sized(ResponsesProvider):
    name = "sized"

    def model(self, slug):
        return super().model("gpt-5.5").evolve(slug=slug, context_window={"small": 2000, "big": 20_000}[slug])


def test_a_larger_earlier_model_compacts_what_fits_its_window(scene, used):
    """The outputs that it compacts would not fit the window of the model that continues."""

    async def story(kernel):
        thread = await kernel.start_thread(model="big")
        await thread.run("Hi!")
        await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="small")))
        return await thread.run("How are you?")

    long = call("exec_command", cmd="seq 1 2000", login=False)
    replies = [long, used(say("Hello."), 3000), compaction(), say("Fine.")]
    config = REMOTE, 'model_providers.here.wire_api="sized"', 'model="big"'
    scene.play(story, replies, *config, plugins=[Offer(providers=[Sized()])])
    compacting = scene.asked[2]
    assert (compacting["model"], compacting["input"][-1]) == ("big", TRIGGER)
    (output,) = (item["output"] for item in compacting["input"] if item["type"] == "function_call_output")
    assert "1999" in output


def test_a_conversation_that_is_too_long_for_the_server_is_summarised_without_its_oldest_items(scene, carry_out):
    full = fault(400, body={"error": {"code": "context_length_exceeded", "message": "Too long."}})
    replies = [say("Hello."), full, full, say("They greeted."), compaction()]

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        first = await carry_out(thread, Compact())
        return first, await carry_out(thread, Compact())

    first, second = scene.play(story, replies, REMOTE)
    assert warnings(first) != []
    assert (kinds(second), scene.asked[-1]["input"][-1]) == (DONE, TRIGGER)


def test_a_broken_response_is_requested_again_and_then_replaced_by_a_summary(scene, carry_out):
    broken = compaction() + fault(no_completed=True)
    replies = [say("Hello."), broken, compaction(), broken, broken, say("They greeted.")]

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return [await carry_out(thread, Compact()) for _ in range(2)]

    first, second = scene.play(story, replies, REMOTE, retries=1)
    assert warnings(first) == []
    assert warnings(second) == [
        refused("stream disconnected before completion: stream closed before response.completed")
    ]
    assert first[-1].type == second[-1].type == "task_complete"


@pytest.mark.parametrize(
    "answer",
    [fault(401, body={"error": {"message": "Bad key."}}), fault(429, body={"error": {"type": "usage_limit_reached"}})],
)
def test_a_summary_is_not_tried_where_it_would_fail_too(scene, carry_out, answer):
    events = scene.play(compacting(carry_out), [say("Hello."), answer], REMOTE)
    assert len(scene.asked) == 2
    assert warnings(events) == []
    assert "error" in kinds(events)


def test_a_limit_of_requests_holds(scene, carry_out):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await carry_out(thread, Compact())

    events = scene.play(story, [say("Hello."), compaction()], REMOTE, "framework.limits.requests=1")
    assert (len(scene.asked), warnings(events)) == (1, [])
    assert "context_compacted" not in kinds(events)


def test_an_interrupt_keeps_the_conversation(scene):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        before = list(thread.history.items)
        await thread.submit(Compact())
        while len(scene.asked) < 2:
            await asyncio.sleep(0.01)
        await thread.interrupt()
        outcome = await thread.settled()
        return outcome.status, before, [item for item in thread.history.items if item in before]

    status, before, after = scene.play(story, [say("Hello."), fault(hang_s=30)], REMOTE)
    assert status is Status.INTERRUPTED
    assert after == before


def test_clients_hear_how_long_the_history_is_afterwards(scene, carry_out, used):
    replies = [used(say("Hello."), 5000), used(compaction(encrypted_content="x" * 4000), 5100)]
    events = scene.play(compacting(carry_out), replies, REMOTE)
    *_, last = [event.info for event in events if isinstance(event, TokenCountEvent)]
    assert 500 < last.last_token_usage.total_tokens < 1000
    assert last.total_token_usage.total_tokens == 5000 + 5100


@pytest.mark.parametrize(
    ("settings", "remote"),
    [
        ([], False),
        (['model_providers.here.name="OpenAI"'], True),
        (['model_providers.here.name="azure"'], True),
        (['model_providers.here.name="openai"'], False),
        (['model_providers.here.name="OpenAI"', "model_providers.here.remote_compaction=false"], False),
        ([REMOTE, "features.remote_compaction_v2=false"], False),
    ],
)
def test_only_openai_azure_and_providers_that_say_so_are_asked(scene, carry_out, settings, remote):
    answer = compaction() if remote else say("They greeted.")
    events = scene.play(
        compacting(carry_out), [say("Hello."), answer], *settings, 'model_providers.here.env_key="PATH"'
    )
    assert (scene.asked[1]["input"][-1] == TRIGGER, warnings(events)) == (remote, [])


def test_outputs_that_do_not_fit_are_omitted_newest_first():
    outputs = [FunctionCallOutput("a", "x" * 4000), FunctionCallOutput("b", "y" * 4000), FunctionCallOutput("c", "z")]
    items = [user_message("Hi!"), *outputs]
    assert fitted(items, 3000) == (items, 0)
    assert fitted(items, 1500) == ([*items[:2], FunctionCallOutput("b", OMITTED_OUTPUT), outputs[2]], 1)
    assert fitted(items, 1)[1] == 2
