"""The server's search of the web: how it is offered, what readers see of it, and how its blocks go back."""

from __future__ import annotations

import json

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
    check_rules,
    failed,
    found,
    kinds,
    response,
    searched,
    text,
    thinking,
    use,
)

from codex_framework import FunctionSpec, ItemAdded, ModelError, ModelInfo, NativeSpec, TextDelta
from codex_framework.contract.protocol.items import (
    Message,
    OutputText,
    Reasoning,
    UnknownItem,
    message_text,
)
from codex_framework.contract.roles.models import LeftOut, ModelWarning
from codex_framework.testing import fault, model_request, say

# How it is offered


@pytest.mark.parametrize(
    ("model", "options", "table", "tool"),
    [
        ("claude-sonnet-5", {}, {}, {"type": "web_search_20250305"}),
        ("claude-3-5-haiku-latest", {}, {}, {"type": "web_search_20250305"}),
        ("claude-3-opus-20240229", {}, {}, None),
        ("unknown", {}, {}, None),
        ("claude-sonnet-5", {}, {"web_search_tool": "none"}, None),
        (
            "unknown",
            {},
            {"web_search_tool": "web_search_20260209", "web_search_max_uses": 3},
            {"type": "web_search_20260209", "allowed_callers": ["direct"], "max_uses": 3},
        ),
        (
            "claude-sonnet-4-5",
            {},
            {"web_search_tool": "web_search_20260318"},
            {"type": "web_search_20260318", "allowed_callers": ["direct"]},
        ),
        ("claude-opus-4-6", {}, {"web_search_tool": "web_search_20260318"}, {"type": "web_search_20260318"}),
        (
            "claude-opus-4-6",
            {
                "filters": {"allowed_domains": ["https://a.org/", "b.org/docs", "https://"]},
                "user_location": {"type": "approximate", "country": "AT", "city": "Graz"},
                "search_context_size": "low",
                "search_content_types": ["text", "image"],
            },
            {},
            {
                "type": "web_search_20250305",
                "allowed_domains": ["a.org", "b.org/docs"],
                "user_location": {"type": "approximate", "city": "Graz", "country": "AT"},
            },
        ),
        (
            "claude-opus-4-6",
            {"filters": None, "user_location": {"type": "approximate"}},
            {},
            {"type": "web_search_20250305"},
        ),
    ],
)
def test_the_search_is_offered_where_the_model_has_it(ask, model, options, table, tool):
    spec = NativeSpec("web_search", "web_search", {"external_web_access": True, **options})
    body, _ = after(ask, ["Hi."], table=table, model=ModelInfo(slug=model, default_effort=None), tools=(LOOK, spec))
    *functions, last = body["tools"]
    if tool is None:
        assert (functions, last["name"]) == ([], "look")
    else:
        assert functions[0]["name"] == "look"
        assert last == {"name": "web_search", **tool, "cache_control": {"type": "ephemeral"}}


def test_the_search_alone_is_a_tool(ask):
    body, _ = after(ask, ["Hi."], tools=(SEARCH,), parallel_tool_calls=False)
    assert [tool["name"] for tool in body["tools"]] == ["web_search"]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_a_function_of_the_same_name_is_the_only_one(ask):
    function = FunctionSpec("web_search", "Searches.", {"type": "object", "properties": {}})
    body, outcome = after(ask, ["Hi."], tools=(function,))
    assert [tool.get("type") for tool in body["tools"]] == [None]
    assert not [event for event in outcome.answers[0] if isinstance(event, LeftOut)]


@pytest.mark.parametrize(
    ("spec", "model", "told"),
    [
        (NativeSpec("web_search", "web_search", {"external_web_access": False}), SONNET, 'web_search = "live"'),
        (SEARCH, ModelInfo(slug="unknown"), "web_search_tool"),
    ],
)
def test_a_search_that_cannot_be_had_is_told_and_not_offered(ask, spec, model, told):
    body, outcome = after(ask, ["Hi."], tools=(LOOK, spec), model=model)
    assert [tool["name"] for tool in body["tools"]] == ["look"]
    (loss,) = [event for event in outcome.answers[0] if isinstance(event, LeftOut)]
    assert (loss.what, told in loss.reason) == ("hosted tools", True)


def test_tools_follow_the_model_of_each_request(ask):
    other = ModelInfo(slug="claude-3-opus-20240229", default_effort=None)
    specs = (LOOK, SEARCH)
    requests = [model_request(model=model, tools=specs) for model in (SONNET, other, SONNET)]
    bodies = ask([say("Yes.")] * 3, *requests).bodies
    assert [len(body["tools"]) for body in bodies] == [2, 1, 2]


@pytest.mark.parametrize("value", ["web_search", "web_search_2026", "live", 3, True, ["none"]])
def test_a_wrong_version_is_named(ask, value):
    with pytest.raises(ModelError, match=r"web_search_tool is") as caught:
        ask([say("Yes.")], web_search_tool=value)
    assert "web_search_20250305" in caught.value.hint


@pytest.mark.parametrize("status", [400, 403])
def test_a_server_without_a_search_is_named(ask, status):
    words = "tools.1: 'web_search_20250305' is not supported on this model"
    refused = fault(status, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    error = ask([refused], model_request(model=SONNET, tools=(SEARCH,))).error
    assert (str(error), error.retryable) == (words, False)
    assert 'web_search_tool = "none"' in error.hint


# What comes back


def test_a_search_is_shown_and_its_texts_are_one_message_with_links(hear):
    outcome = searched(hear, "end_turn", *CITED)
    assert kinds(outcome) == [
        *("Message", "Reasoning", "Reasoning", "web_search_call"),
        *("Reasoning", "Reasoning", "Message"),
    ]
    texts = [message_text(item) for item in outcome.items if isinstance(item, Message)]
    assert texts == ["I'll look.", SHOWN]
    deltas: dict[str, str] = {}
    for event in outcome.answers[0]:
        if isinstance(event, TextDelta):
            deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
    assert list(deltas.values()) == texts
    (search,) = [item for item in outcome.items if isinstance(item, UnknownItem)]
    assert search.raw == {
        "type": "web_search_call",
        "id": search.raw["id"],
        "status": "completed",
        "action": {"type": "search", "query": "rain"},
    }
    begun = [e.item.raw for e in outcome.answers[0] if isinstance(e, ItemAdded) and isinstance(e.item, UnknownItem)]
    assert begun == [{"type": "web_search_call", "id": search.raw["id"], "status": "in_progress"}]
    added = [
        event.item.id for event in outcome.answers[0] if isinstance(event, ItemAdded) and hasattr(event.item, "id")
    ]
    assert sorted(added) == sorted(item.id for item in outcome.items if hasattr(item, "id"))
    assert len(set(added)) == len(added)


def test_all_blocks_go_back_unchanged_and_in_their_order(hear, ask):
    outcome = searched(hear, "end_turn", *CITED)
    body, again = after(ask, ["Rain?", *outcome.items], "And snow?")
    check_rules(body)
    assert body["messages"][1] == {"role": "assistant", "content": CITED}
    assert not [event for event in again.answers[0] if isinstance(event, LeftOut)]


def test_fields_of_blocks_that_are_null_are_left_out(hear, ask):
    outcome = searched(hear, "end_turn", use(caller=None), found(caller=None), text("Rain."))
    body, _ = after(ask, ["Rain?", *outcome.items], "And snow?")
    assert body["messages"][1]["content"] == [use(), found(), text("Rain.")]


def test_searches_at_once_keep_their_order(hear, ask):
    blocks = [
        thinking("Two."),
        use("a", "rain"),
        use("b", "snow"),
        text("Meanwhile."),
        found("b"),
        found("a"),
        text("Both."),
    ]
    outcome = searched(hear, "end_turn", *blocks)
    queries = [item.raw["action"]["query"] for item in outcome.items if isinstance(item, UnknownItem)]
    assert sorted(queries) == ["rain", "snow"]
    body, _ = after(ask, ["Rain?", *outcome.items], "And fog?")
    check_rules(body)
    assert body["messages"][1]["content"] == blocks


def test_a_message_that_was_changed_goes_back_as_it_is_now(hear, ask):
    outcome = searched(hear, "end_turn", *CITED)
    *items, last = outcome.items
    changed = Message("assistant", (OutputText("Something else."),), id=last.id)
    body, _ = after(ask, ["Rain?", *items, changed], "And snow?")
    check_rules(body)
    assert body["messages"][1]["content"][-1] == text("Something else.")


def test_no_links_are_put_into_an_answer_with_a_schema(hear, ask):
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    events = response(1, "end_turn", use(), found(), text('{"a": '), text("1", SOURCE), text("}"))
    outcome = hear(*events, model=SONNET, tools=(SEARCH,), output_schema=schema)
    assert message_text(outcome.items[-1]) == '{"a": 1}'
    body, _ = after(ask, ["Rain?", *outcome.items], "And snow?")
    assert body["messages"][1]["content"][-3:] == [text('{"a": '), text("1", SOURCE), text("}")]


def test_blank_texts_between_cited_ones_are_shown_but_not_sent(hear, ask):
    outcome = searched(hear, "end_turn", text("A."), text("\n\n"), text("B.", SOURCE))
    assert message_text(outcome.items[-1]) == f"A.\n\nB.{LINK}"
    body, _ = after(ask, ["Rain?", *outcome.items], "And snow?")
    check_rules(body)
    assert body["messages"][1]["content"] == [text("A."), text("B.", SOURCE)]


def test_texts_of_a_server_without_a_search_stay_messages_of_their_own(hear):
    outcome = hear(*response(1, "end_turn", text("A."), text("B.")), model=SONNET, tools=(LOOK,))
    assert [message_text(item) for item in outcome.items] == ["A.", "B."]


@pytest.mark.parametrize(
    ("code", "told"), [("max_uses_exceeded", "the limit of searches"), ("query_too_long", "too long"), ("odd", "odd")]
)
def test_an_error_inside_a_result_is_shown_and_goes_back(hear, ask, code, told):
    blocks = [use(), failed(code=code), text("I cannot search.")]
    outcome = searched(hear, "end_turn", *blocks)
    (warning,) = [event.message for event in outcome.answers[0] if isinstance(event, ModelWarning)]
    assert "`web_search`" in warning
    assert "`rain`" in warning
    assert told in warning
    assert [item.raw["status"] for item in outcome.items if isinstance(item, UnknownItem)] == ["failed"]
    body, _ = after(ask, ["Rain?", *outcome.items], "Go on.")
    check_rules(body)
    assert body["messages"][1]["content"] == blocks


FIRST = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 1}
ALL = {"input_tokens": 1500, "cache_read_input_tokens": 1500, "output_tokens": 60}
RUNS = [
    {"type": "message", "input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 20},
    {"type": "message", "input_tokens": 1400, "cache_read_input_tokens": 600, "output_tokens": 40},
    {"type": "compaction", "input_tokens": 7, "output_tokens": 7},
]


@pytest.mark.parametrize(
    ("blocks", "first", "last", "total"),
    [
        ([text("No search.")], FIRST, ALL, 3060),
        ([use(), found(), text("One.")], FIRST, ALL, 2060),
        ([use(), use("b"), found(), found("b"), text("Two at once.")], FIRST, ALL, 2060),
        ([use(), found(), use("b"), found("b"), text("Two.")], FIRST, {**ALL, "cache_read_input_tokens": 6000}, 4060),
        ([use(), found(), text("Less.")], FIRST, FIRST, 1001),
        ([use(), found(), text("Zeros.")], {"input_tokens": 0}, ALL, 3060),
        ([use(), found(), text("One.")], FIRST, {**ALL, "iterations": RUNS}, 2040),
        (
            [use(), found(), text("One.")],
            FIRST,
            {**ALL, "iterations": [3, {"type": "message", "input_tokens": "x"}]},
            2060,
        ),
    ],
)
def test_the_total_is_the_length_of_the_conversation_although_all_runs_are_counted(hear, blocks, first, last, total):
    begin, *events = response(1, "end_turn", *blocks)
    begin["message"]["usage"] = first
    events[-2]["usage"] = last
    usage = hear(begin, *events, model=SONNET, tools=(SEARCH,)).answers[0][-1].usage
    inputs = [max(first.get(name, 0), last.get(name, 0)) for name in ("input_tokens", "cache_read_input_tokens")]
    assert (usage.input_tokens, usage.output_tokens) == (sum(inputs), last["output_tokens"])
    assert usage.total_tokens == total


def test_no_results_are_no_error(hear):
    outcome = searched(hear, "end_turn", use(), {**found(), "content": []}, text("Nothing."))
    assert not [event for event in outcome.answers[0] if isinstance(event, ModelWarning)]


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal", "tool_use"])
def test_a_search_that_never_ended_is_not_in_the_history(hear, ask, reason):
    outcome = searched(hear, reason, text("I look."), use())
    assert kinds(outcome) == ["Message", "web_search_call"]
    assert outcome.items[1].raw["status"] == "failed"
    body, _ = after(ask, ["Rain?", *outcome.items], "Go on.")
    check_rules(body)
    assert body["messages"][1]["content"] == [text("I look.")]


def test_a_search_that_broke_off_is_made_again(ask, hear):
    events = response(1, "end_turn", thinking("Hm."), text("I look."), use(), found(), text("It rains."))
    cut = next(place for place, event in enumerate(events) if "web_search_tool_result" in json.dumps(event))
    outcome = hear(*events[:cut], model=SONNET, tools=(SEARCH,))
    assert outcome.error.retryable
    assert kinds(outcome) == ["Reasoning", "Message"]


def test_arguments_that_are_cut_off_make_no_search(hear):
    events = [event for event in response(1, "max_tokens", text("I look."), use()) if '"}' not in json.dumps(event)]
    events = [one for one in events if one.get("delta", {}).get("partial_json") is None]
    events.insert(-3, {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"query": "ra'}})
    outcome = hear(*events, model=SONNET, tools=(SEARCH,))
    assert not any(
        "block" in item.extra.get("provider_private", {}) for item in outcome.items if isinstance(item, Reasoning)
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "server_tool_use", "id": 3, "name": "web_search", "input": {}},
        {"type": "server_tool_use", "id": "a"},
        {"type": "web_search_tool_result", "content": []},
        {"type": "web_search_tool_result", "tool_use_id": "a", "content": [float("nan")]},
        {"type": "web_search_tool_result", "tool_use_id": "a", "content": json.loads("[" * 500 + "]" * 500)},
        {"type": "text", "text": "", "citations": [3]},
        {"type": "text", "text": "", "citations": [{"n": float("inf")}]},
    ],
)
def test_blocks_that_cannot_go_back_break_the_response(hear, block):
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    begin, *end = response(1, "end_turn")
    error = hear(begin, start, {"type": "content_block_stop", "index": 0}, *end, model=SONNET, tools=(SEARCH,)).error
    assert (error.slug, error.retryable) == ("stream-disconnected", True)
