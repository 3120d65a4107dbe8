"""Responses that the server goes on with, histories that it refuses, and whole turns with searches."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from message_blocks import (
    CITED,
    LINK,
    LOOK,
    SEARCH,
    SHOWN,
    SONNET,
    SOURCE,
    after,
    call,
    check_rules,
    failed,
    found,
    response,
    searched,
    text,
    thinking,
    use,
)

from codex_framework import FunctionCall, ModelInfo
from codex_framework.contract.protocol.events import (
    HistoryLossEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    WarningEvent,
    WebSearchBeginEvent,
    WebSearchEndEvent,
)
from codex_framework.contract.protocol.items import (
    FunctionCallOutput,
    Message,
    OutputText,
    UnknownItem,
    message_text,
    user_message,
    with_paired_outputs,
)
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.roles.models import Completed, LeftOut
from codex_framework.testing import fault, model_request, say
from codex_framework.testing.cassettes import CassetteFile

# Responses that the server goes on with


def test_a_pause_is_continued_as_it_is(hear, ask):
    blocks = [thinking("Hm."), text("I look."), use("a"), found("a"), use("b", "snow")]
    outcome = searched(hear, "pause_turn", *blocks)
    assert outcome.answers[0][-1] == Completed("msg_1", outcome.answers[0][-1].usage, end_turn=False)
    assert [item.raw["status"] for item in outcome.items if isinstance(item, UnknownItem)] == [
        "completed",
        "in_progress",
    ]
    body, _ = after(ask, ["Rain?", *outcome.items])
    check_rules(body)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert body["messages"][1]["content"] == blocks
    later = hear(*response(2, "end_turn", found("b"), text("Both.")), model=SONNET, tools=(LOOK, SEARCH))
    body, _ = after(ask, ["Rain?", *outcome.items, *later.items], "And fog?")
    check_rules(body)
    assert body["messages"][1]["content"] == [*blocks, found("b"), text("Both.")]


def test_a_pause_with_thoughts_at_its_end_keeps_them_when_it_goes_on(hear, ask):
    outcome = searched(hear, "pause_turn", use("a"), found("a"), thinking("Then?", "s-1"))
    later = hear(*response(2, "end_turn", use("b"), found("b"), text("So.")), model=SONNET, tools=(LOOK, SEARCH))
    body, _ = after(ask, ["Rain?", *outcome.items, *later.items], "And fog?")
    assert body["messages"][1]["content"][2] == thinking("Then?", "s-1")


def test_a_pause_before_anything_ends_the_turn(hear):
    outcome = searched(hear, "pause_turn")
    assert outcome.answers[0][-1].end_turn is None
    assert [message_text(item) for item in outcome.items] == [""]


def test_a_pause_that_the_user_ends_gets_a_result(hear, ask):
    caller = {"type": "direct"}
    outcome = searched(hear, "pause_turn", use("a"), found("a"), use("b", "snow", caller=caller))
    for more, changes in ((["Stop."], {}), ([], {"tools": (LOOK,)})):
        body, _ = after(ask, ["Rain?", *outcome.items], *more, **changes)
        check_rules(body)
        last = body["messages"][1]["content"][-1]
        assert last == {**failed("b", "unavailable"), "caller": caller}
        assert body["messages"][2]["role"] == "user"


def test_a_server_that_pauses_for_ever_is_stopped(hear, ask):
    items = ["Rain?"]
    for number in range(51):
        events = response(number, "pause_turn", use(f"a{number}"), found(f"a{number}"))
        items += hear(*events, model=SONNET, tools=(SEARCH,)).items
    outcome = ask([say("Yes.")], model_request(*items, model=SONNET, tools=(SEARCH,)))
    assert "paused its work 50 times" in str(outcome.error)
    assert outcome.error.hint
    assert outcome.bodies == []
    assert ask([say("Yes.")], model_request(*items, "Go on.", model=SONNET, tools=(SEARCH,))).errors == [None]


def test_calls_beside_a_search_are_answered_first(hear, ask):
    first = [thinking("Both."), use("a"), call("t1")]
    outcome = searched(hear, "tool_use", *first)
    items = ["Rain?", *outcome.items, FunctionCallOutput("t1", "seen")]
    body, _ = after(ask, items)
    check_rules(body)
    assert body["messages"][1]["content"] == first
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result"]
    second = [found("a"), text("Done.", SOURCE)]
    later = hear(*response(2, "end_turn", *second), model=SONNET, tools=(LOOK, SEARCH))
    body, _ = after(ask, [*items, *later.items], "And fog?")
    check_rules(body)
    assert [message["content"] for message in body["messages"][1:4:2]] == [first, second]


@pytest.mark.parametrize("end", ["steered", "steered before", "not offered", "no result"])
def test_a_search_beside_calls_that_will_not_be_run_gets_a_result(hear, ask, end):
    first = [use("a"), call("t1"), use("b", "snow"), call("t2")]
    outcome = searched(hear, "tool_use", *first)
    outputs = [FunctionCallOutput("t1", "seen"), FunctionCallOutput("t2", "seen")]
    items = ["Rain?", *outcome.items, *outputs]
    changes = {}
    match end:
        case "steered":
            items.append(user_message("Hurry!"))
        case "steered before":
            items.insert(-1, user_message("Hurry!"))
        case "not offered":
            changes["tools"] = (LOOK,)
        case _:
            items += [Message("assistant", (OutputText("Done."),)), user_message("And?")]
    body, _ = after(ask, items, **changes)
    check_rules(body)
    failures = [failed(name, "unavailable") for name in ("a", "b")]
    assert body["messages"][1]["content"] == [*first[:3], *failures, first[3]]


def test_code_that_filters_results_goes_on_in_its_container(hear, ask):
    code = {"type": "server_tool_use", "id": "code", "name": "code_execution", "input": {"code": "x"}}
    caller = {"type": "code_execution_20260120", "tool_id": "code"}
    blocks = [code, use("a", caller=caller), found("a", caller=caller)]
    outcome = searched(hear, "pause_turn", *blocks, container="box-1")
    table = {"web_search_tool": "web_search_20260318"}
    body, _ = after(ask, ["Rain?", *outcome.items], table=table)
    assert (body["container"], body["messages"][1]["content"]) == ("box-1", blocks)
    done = {"type": "code_execution_tool_result", "tool_use_id": "code", "content": {"type": "code_execution_result"}}
    later = hear(*response(2, "end_turn", done, text("So.")), model=SONNET, tools=(SEARCH,))
    body, _ = after(ask, ["Rain?", *outcome.items, *later.items], "And fog?", table=table)
    check_rules(body)
    assert "container" not in body
    assert body["messages"][1]["content"] == [*blocks, done, text("So.")]
    body, _ = after(ask, ["Rain?", *outcome.items], "Stop.", table=table)
    assert body["messages"][1]["content"][-1] == {
        "type": "code_execution_tool_result",
        "tool_use_id": "code",
        "content": {"type": "code_execution_tool_result_error", "error_code": "unavailable"},
    }


def test_a_call_beside_code_that_waits_names_the_container(hear, ask):
    outcome = searched(hear, "tool_use", use("a"), call("t1"), container="box-1")
    body, _ = after(ask, ["Rain?", *outcome.items, FunctionCallOutput("t1", "seen")])
    assert body["container"] == "box-1"


def test_a_budget_for_thinking_is_given_on_a_pause_only_if_the_work_began_with_a_thought(hear, ask):
    model = ModelInfo(slug="claude-sonnet-4-5", default_effort=None)
    for blocks, thinks in (([thinking("Hm."), use()], True), ([use()], False)):
        outcome = searched(hear, "pause_turn", *blocks)
        body, _ = after(ask, ["Rain?", *outcome.items], model=model)
        assert ("thinking" in body) is thinks


# Histories that a server refuses, and other servers

REFUSALS = [
    "messages.1.content.0: Invalid `encrypted_content` in `search_result` block",
    "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block",
    "messages.1.content.2.citations.0: Invalid `encrypted_index`",
]


@pytest.mark.parametrize("words", REFUSALS)
def test_results_that_the_server_refuses_are_left_out_from_then_on(hear, ask, words):
    outcome = searched(hear, "end_turn", *CITED)
    refused = fault(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    items = ["Rain?", *outcome.items, user_message("And snow?")]
    request = model_request(*items, model=SONNET, tools=(SEARCH,))
    again = ask([refused, say("Yes."), say("Yes.")], request, request)
    assert again.errors == [None, None]
    assert [event.what for event in again.answers[0] if isinstance(event, LeftOut)] == ["results of hosted tools"]
    for body in again.bodies[1:]:
        check_rules(body)
        assert body["messages"][1]["content"] == [text("I'll look."), thinking("Well."), text(SHOWN)]


def test_after_a_refusal_new_searches_go_back(hear, ask):
    old = ["Rain?", *searched(hear, "end_turn", *CITED).items, user_message("And snow?")]
    new = hear(*response(2, "pause_turn", use("b"), found("b"), use("c")), model=SONNET, tools=(SEARCH,)).items
    refused = fault(400, body={"error": {"type": "invalid_request_error", "message": REFUSALS[0]}})
    first, second = (model_request(*items, model=SONNET, tools=(SEARCH,)) for items in (old, [*old, *new]))
    body = ask([refused, say("Yes."), say("Yes.")], first, second).bodies[-1]
    check_rules(body)
    assert body["messages"][-1]["content"] == [use("b"), found("b"), use("c")]


def test_results_are_no_thoughts_that_a_server_could_refuse(hear, ask):
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    refused = fault(400, body={"error": {"type": "invalid_request_error", "message": words}})
    items = searched(hear, "end_turn", use(), found(), text("Rain."), text("Snow.")).items
    outcome = ask([refused, say("Yes.")], model_request("Rain?", *items, "And snow?", model=SONNET, tools=(SEARCH,)))
    assert (str(outcome.error), len(outcome.bodies)) == (words, 1)


def test_a_refusal_without_results_is_an_error(ask):
    refused = fault(400, body={"error": {"type": "invalid_request_error", "message": REFUSALS[0]}})
    outcome = ask([refused])
    assert (str(outcome.error), len(outcome.bodies)) == (REFUSALS[0], 1)


def test_a_call_that_the_history_has_twice_goes_back_once(hear, ask):
    items = searched(hear, "end_turn", use(), found(), text("Rain.")).items
    body, _ = after(ask, ["Rain?", *items[:3], *items], "And snow?")
    check_rules(body)
    assert body["messages"][1]["content"] == [use(), found(), text("Rain.")]


def test_half_of_a_search_never_goes_back(hear, ask):
    items = ["Rain?", *searched(hear, "end_turn", *CITED).items, user_message("And snow?")]
    for missing in range(1, len(items) - 1):
        body, _ = after(ask, [*items[:missing], *items[missing + 1 :]])
        check_rules(body)


def test_random_conversations_follow_the_rules_however_they_grow(hear, ask):
    dice = random.Random(7)
    for _ in range(12):
        items, requests = [user_message("Rain?")], []
        for number in range(dice.randint(2, 6)):
            ids = [f"s{number}_{place}" for place in range(dice.randrange(3))]
            blocks = [thinking("Hm.", f"sig-{number}")] if dice.random() < 0.6 else []
            blocks += [use(one) for one in ids] + [found(one) for one in ids if dice.random() < 0.7]
            blocks += [text("A"), text("B", SOURCE)] if dice.random() < 0.6 else []
            reason = dice.choice(["end_turn", "pause_turn", "tool_use"])
            blocks += [call(f"t{number}")] if reason == "tool_use" else []
            outcome = searched(hear, reason, *blocks)
            items += outcome.items
            items += [
                FunctionCallOutput(item.call_id, "seen") for item in outcome.items if isinstance(item, FunctionCall)
            ]
            if dice.random() < 0.4:
                items.append(user_message(f"More {number}."))
            if dice.random() < 0.2 and len(items) > 3:
                del items[dice.randrange(1, len(items) - 1)]
            # The kernel's histories have an output for each call.
            requests.append(model_request(*with_paired_outputs(items), model=SONNET, tools=(LOOK, SEARCH)))
        grown = ask([say("Yes.")] * len(requests), *requests)
        assert not any(grown.errors)
        for request, body in zip(requests, grown.bodies, strict=True):
            check_rules(body)
            assert ask([say("Yes.")], request).bodies == [body]


# Whole turns


def config(url, **more):
    extra = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    return (
        'model = "claude-sonnet-5"\nmodel_provider = "mine"\nsandbox_mode = "danger-full-access"\n'
        f'approval_policy = "never"\nweb_search = "live"\n{extra}'
        f'[model_providers.mine]\nbase_url = "{url}"\nwire_api = "messages"\n'
        f'[model_providers.other]\nbase_url = "{url}"\nwire_api = "responses"\n'
    )


def shell(call_id, command):
    return {"type": "tool_use", "id": call_id, "name": "exec_command", "input": {"cmd": command}}


def test_turns_with_searches_pauses_and_calls_end_well(make_kernel, serve, workspace):
    responses = [
        response(1, "pause_turn", thinking("Hm."), use("a"), found("a"), use("b", "snow")),
        response(2, "tool_use", found("b"), thinking("Then.", "s2"), use("c", "fog"), shell("t1", "echo x >> log")),
        response(3, "end_turn", failed("c"), text("It rains"), text(" here", SOURCE), text(".")),
        response(4, "end_turn", text("No.")),
    ]
    events = []

    async def run(server):
        async with make_kernel(config=config(server.url)) as kernel:
            thread = await kernel.start_thread()
            heard = thread.events()
            first = await thread.run("Rain?")
            await thread.shutdown()
            events.extend([event.msg async for event in heard])
        async with make_kernel(config=config(server.url)) as kernel:
            thread = await kernel.resume_thread(thread.id)
            return first, await thread.run("And snow?")

    with serve(*responses) as server:
        first, second = asyncio.run(run(server))
        bodies = [request.json for request in server.requests]
    assert (first.final_message, first.error) == (f"It rains here{LINK}.", None)
    assert (second.final_message, second.error) == ("No.", None)
    assert (workspace / "log").read_text() == "x\n"
    for body in bodies:
        check_rules(body)
    assert [message["content"] for message in bodies[3]["messages"] if message["role"] == "assistant"] == [
        [
            *(thinking("Hm."), use("a"), found("a"), use("b", "snow"), found("b")),
            *(thinking("Then.", "s2"), use("c", "fog"), shell("t1", "echo x >> log")),
        ],
        [failed("c"), text("It rains"), text(" here", SOURCE), text(".")],
    ]
    shown = [
        event.item for event in events if isinstance(event, ItemCompletedEvent) and event.item["type"] == "WebSearch"
    ]
    assert [(item["query"], item["action"]["type"]) for item in shown] == [
        ("rain", "search"),
        ("snow", "search"),
        ("fog", "search"),
    ]
    started = [
        event.item["id"]
        for event in events
        if isinstance(event, ItemStartedEvent) and event.item["type"] == "WebSearch"
    ]
    assert started == [item["id"] for item in shown]
    assert [event.call_id for event in events if isinstance(event, WebSearchBeginEvent)] == started
    assert [event.query for event in events if isinstance(event, WebSearchEndEvent)] == ["rain", "snow", "fog"]
    assert any("there were too many" in event.message for event in events if isinstance(event, WarningEvent))
    assert not [event for event in events if isinstance(event, HistoryLossEvent)]


def test_searches_play_back_without_a_server(make_kernel, serve, tmp_path):
    blocks = [use("a"), found("a"), use("b"), failed("b"), *CITED[4:]]
    path = tmp_path / "turns.jsonl"

    async def turns(text):
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            return [(await thread.run(words)).final_message for words in ("Rain?", "And snow?")]

    with serve(response(1, "end_turn", *blocks), response(2, "end_turn", text("No."))) as server:
        settings = config(server.url)
        assert asyncio.run(turns(CassetteFile(path, "record")(settings))) == [SHOWN, "No."]
    assert "sealed-a" in path.read_text()
    assert asyncio.run(turns(CassetteFile(path)(settings))) == [SHOWN, "No."]


def test_another_api_gets_the_text_with_its_links_and_nothing_sealed(make_kernel, model_server, serve):
    with serve(response(1, "end_turn", *CITED)) as first:
        second = model_server([say("No.")])
        both = config(first.url).replace(
            f'[model_providers.other]\nbase_url = "{first.url}"', f'[model_providers.other]\nbase_url = "{second.url}"'
        )

        async def turns():
            async with make_kernel(config=both) as kernel:
                thread = await kernel.start_thread()
                await thread.run("Rain?")
                await thread.submit(ThreadSettings(ThreadSettingsOverrides(model="gpt-5.4", model_provider="other")))
                return await thread.run("And snow?")

        assert asyncio.run(turns()).final_message == "No."
    sent = second.requests[0].body.decode()
    assert "sealed-" not in sent
    assert "index-1" not in sent
    assert "provider_private" not in sent
    said = [item["content"][0]["text"] for item in second.requests[0].json["input"] if item.get("role") == "assistant"]
    assert said == ["I'll look.", SHOWN]
