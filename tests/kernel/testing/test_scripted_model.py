"""A model in process that says what it is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Completed, ItemDone, ModelError, ModelInfo, ModelRequest, TextDelta
from codex_framework.contract.protocol.items import FunctionCall
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, fail, fault, say
from codex_framework.testing.requests import ask, model_request
from codex_framework.testing.scripted import pieces
from codex_plugin_openai.provider import ResponsesProvider


def test_it_says_what_it_is_told_and_remembers_what_it_was_asked() -> None:
    model = ScriptedModel([say("hello", deltas=2) + call("f", a=1), say("bye")])
    requests = [model_request("one"), model_request("two")]
    first, second = asyncio.run(ask(model, model.builtin["scripted"], *requests))
    assert [event.delta for event in first if isinstance(event, TextDelta)] == ["he", "llo"]
    assert ItemDone(FunctionCall("f", '{"a": 1}', "call_1_2", id="fc_1_2")) in first
    assert isinstance(second[-1], Completed)
    assert model.requests == requests
    assert model.unplayed == 0


def test_it_says_the_same_as_a_server_with_the_same_script() -> None:
    from codex_framework import ProviderInfo
    from codex_framework.testing.server import ResponsesServer

    def said() -> list[Any]:
        return [say("hello", deltas=3) + call("f", a=1), call("g", "not json") + say("x", phase="commentary")]

    requests = [model_request("one"), model_request("two")]
    model = ScriptedModel(said())
    with ResponsesServer(said()) as server:
        info = ProviderInfo(id="x", base_url=server.url)
        over_http = asyncio.run(ask(ResponsesProvider(), info, *requests))
    assert asyncio.run(ask(model, model.builtin["scripted"], *requests)) == over_http


def test_a_reply_may_depend_on_the_request() -> None:
    def answer(request: ModelRequest) -> Any:
        return say(request.model.slug)

    model = ScriptedModel([answer])
    ((_, delta, *_),) = asyncio.run(ask(model, model.builtin["scripted"]))
    assert isinstance(delta, TextDelta)
    assert delta.delta == "test-model"


@pytest.mark.parametrize(
    ("reply", "fact"),
    [
        (fail("no more credit"), "no more credit"),
        (fault(503), "unexpected status 503 Service Unavailable"),
        (say("a") + fault(incomplete="max_output_tokens"), "Incomplete response returned, reason: max_output_tokens"),
    ],
)
def test_it_fails_when_told_to(reply: Any, fact: str) -> None:
    model = ScriptedModel([reply])
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(model, model.builtin["scripted"]))
    assert caught.value.fact == fact


def test_a_request_too_many_fails() -> None:
    model = ScriptedModel([])
    with pytest.raises(ModelError, match="the script has 0 replies, and this is request 1"):
        asyncio.run(ask(model, model.builtin["scripted"]))


def test_it_knows_the_models_it_is_told_of() -> None:
    known = ModelInfo(slug="a")
    model = ScriptedModel([], models={"a": known})
    assert (model.model("a"), model.model("b")) == (known, None)


def test_added_replies_keep_the_settings_of_both() -> None:
    both = say("a", deltas=3) + fault(after=2)
    assert (both.deltas, both.fault is not None and both.fault.after, len(both.items)) == (3, 2, 1)


@pytest.mark.parametrize(
    ("text", "count", "parts"), [("abcde", 2, ["ab", "cde"]), ("ab", 5, ["a", "b"]), ("", 3, []), ("a", 0, ["a"])]
)
def test_texts_are_cut_into_pieces_of_nearly_equal_length(text: str, count: int, parts: list[str]) -> None:
    assert pieces(text, count) == parts


def test_every_public_name_is_there() -> None:
    import codex_framework.testing as testing

    assert [name for name in testing.__all__ if getattr(testing, name, None) is None] == []
    assert sorted(testing.__all__, key=lambda name: (not name.isupper(), name)) == testing.__all__
