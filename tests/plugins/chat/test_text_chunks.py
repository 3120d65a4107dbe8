"""The shortcut for chunks of text gives what reading each chunk as a whole gives, however servers vary them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codex_framework import ModelError
from codex_lib_model_client.functions import Projection
from codex_plugin_chat.reply import Reply
from codex_plugin_chat.text_chunks import TextChunks


def chunk(text: Any, **more: Any) -> str:
    delta = {"content": text, **more.pop("delta", {})}
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more.pop("choice", {})}
    return json.dumps({"id": "c1", "created": more.pop("created", 1), "choices": [choice], **more})


def events_of(chunks: list[str], *, shortcut: bool = True) -> tuple[list[str], str]:
    """Return the events, and the error that ended the response."""
    reply = Reply(Projection(()))
    if not shortcut:
        reply._chunks._attempts = 1000
    found: list[str] = []
    try:
        for data in chunks:
            found += [repr(event).replace(reply._token, "") for event in reply.feed(data)]
    except ModelError as error:
        return found, str(error)
    return found, ""


variants = st.one_of(
    st.builds(chunk, st.text()),
    st.builds(chunk, st.text(), created=st.integers(1, 3)),
    st.builds(lambda text: json.dumps(json.loads(chunk(text)), ensure_ascii=False), st.text()),
    st.builds(lambda text: chunk(text, delta={"role": "assistant"}), st.text()),
    st.builds(lambda text: chunk(text, delta={"reasoning_content": "hm"}), st.text()),
    st.just(json.dumps({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})),
    st.just(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
    st.builds(lambda text: chunk("a", message={"content": text}), st.text()),
    st.builds(lambda text: chunk(text, choice={"index": 1}), st.text()),
    st.builds(lambda text: chunk(text, obfuscation="x" * len(text)), st.text(max_size=9)),
    st.builds(lambda text, cut: chunk(text)[: -1 - cut], st.text(), st.integers(0, 40)),
    st.just(chunk("a").replace('"a"', '"a", "content": "b"')),
    st.just(chunk("a").replace('"a"', '"a\\\\"')),
    st.just(chunk(["a list"])),
)


@example(chunks=[json.dumps({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}), chunk("End.")])
@example(chunks=[json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), chunk("End.")])
@given(chunks=st.lists(variants, max_size=12))
def test_it_makes_no_difference(chunks: list[str]) -> None:
    chunks = [chunk("Begin."), *chunks]
    assert events_of(chunks) == events_of(chunks, shortcut=False)


def test_it_is_taken() -> None:
    chunks = TextChunks()
    first = chunk("a")
    chunks.learn(first, json.loads(first)["choices"][0]["delta"])
    assert chunks.text(chunk('He said: "\u00fc\\n"\n\U0001f600')) == 'He said: "\u00fc\\n"\n\U0001f600'
    assert chunks.text(chunk("a", created=2)) is None
    assert chunks.text(chunk("a", choice={"finish_reason": "stop"})) is None
    assert chunks.text(first.replace('"a"', '"a","x":"y"')) is None


@pytest.mark.parametrize("place", ["message", "logprobs"])
def test_a_second_content_is_no_pattern(place: str) -> None:
    chunks = TextChunks()
    odd = json.dumps({place: {"content": "a"}, "choices": [{"index": 0, "delta": {"content": "a"}}]})
    chunks.learn(odd, {"content": "a"})
    assert chunks.text(odd) is None


def test_servers_that_vary_every_chunk_cost_a_limited_effort() -> None:
    chunks = TextChunks()
    for number in range(200):
        chunks.learn(chunk("a", created=number), {"content": "a"})
    assert chunks.text(chunk("b", created=199)) is None
    assert chunks.text(chunk("b", created=63)) == "b"
