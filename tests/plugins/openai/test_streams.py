"""What an answer says, however the network cuts it up."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import Completed, ItemAdded, ItemDone, ModelError, TextDelta
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    Message,
    OutputText,
    Reasoning,
    UnknownItem,
)
from codex_framework.contract.roles.models import RateLimits, ReasoningDelta, ReasoningPartAdded, ToolInputDelta
from codex_framework.testing.replies import call, custom_call, fault, reasoning, reply, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_lib_model_client.sse import EventSplitter
from codex_plugin_openai.provider import ResponsesProvider

Ask = Callable[..., Any]

USAGE = TokenUsage(100, 10, 20, 5, 120)


def test_a_message_comes_in_pieces_and_then_whole(ask: Ask) -> None:
    assert ask([say("hé🦀o", deltas=2, usage=None)]).events == [
        ItemAdded(Message("assistant", (), id="msg_1_1")),
        TextDelta("msg_1_1", "hé"),
        TextDelta("msg_1_1", "🦀o"),
        ItemDone(Message("assistant", (OutputText("hé🦀o"),), id="msg_1_1")),
        Completed("resp_1"),
    ]


def test_calls_and_reasoning_come_as_items(ask: Ask) -> None:
    said = reasoning("think", encrypted_content="xyz") + call("f", a=1) + custom_call("g", "text", deltas=1)
    assert ask([said]).events == [
        ItemAdded(Reasoning(id="rs_1_1")),
        ReasoningPartAdded("rs_1_1", 0),
        ReasoningDelta("rs_1_1", "think", 0),
        ItemDone(Reasoning("rs_1_1", ({"type": "summary_text", "text": "think"},), encrypted_content="xyz")),
        ItemAdded(FunctionCall("f", "", "call_1_2", id="fc_1_2")),
        ItemDone(FunctionCall("f", '{"a": 1}', "call_1_2", id="fc_1_2")),
        ItemAdded(CustomToolCall("g", "", "call_1_3", "ctc_1_3", "completed")),
        ToolInputDelta("ctc_1_3", "text"),
        ItemDone(CustomToolCall("g", "text", "call_1_3", "ctc_1_3", "completed")),
        Completed("resp_1", USAGE),
    ]


def test_an_unknown_item_is_kept(ask: Ask) -> None:
    raw = {"type": "hologram", "id": "h1", "depth": 3}
    assert ask([reply(UnknownItem(raw))]).events[1] == ItemDone(UnknownItem(raw))


def test_the_server_may_ask_to_go_on(ask: Ask) -> None:
    assert ask([say("a").evolve(end_turn=False)]).events[-1] == Completed("resp_1", USAGE, end_turn=False)


def test_rate_limits_come_from_the_headers(ask: Ask) -> None:
    headers = {
        "x-codex-primary-used-percent": "12.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1795400000",
        "x-codex-credits-has-credits": "true",
        "x-codex-credits-unlimited": "false",
        "x-codex-credits-balance": "9.99",
    }
    assert ask([say("a").evolve(headers=headers)]).events[0] == RateLimits(
        {
            "limit_id": "codex",
            "primary": {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1795400000},
            "credits": {"has_credits": True, "unlimited": False, "balance": "9.99"},
        }
    )


def test_one_connection_serves_all_requests_of_a_thread(ask: Ask) -> None:
    outcome = ask([call("f") for _ in range(20)], *[model_request(str(n)) for n in range(20)])
    assert outcome.server.connections == 1


def test_a_request_after_a_cut_takes_a_new_connection(ask: Ask) -> None:
    outcome = ask([say("a") + fault(after=2), say("b")], model_request(), model_request())
    assert isinstance(outcome.answers[0], ModelError)
    assert outcome.answers[1][-1] == Completed("resp_2", USAGE)
    assert outcome.server.connections == 2


def test_many_threads_may_ask_at_once(env: dict[str, str]) -> None:
    async def run(url: str) -> list[str]:
        info = ResponsesProvider.builtin["ollama"]
        client = ResponsesProvider().open(info.evolve(base_url=url), env)

        async def one(number: int) -> str:
            request = model_request(str(number), thread_id=f"thread-{number}")
            events = [event async for event in client.stream(request)]
            assert isinstance(events[-2], ItemDone)
            item = events[-2].item
            assert isinstance(item, Message)
            return "".join(part.text for part in item.content if isinstance(part, OutputText))

        try:
            return await asyncio.gather(*(one(number) for number in range(50)))
        finally:
            await client.aclose()

    def echo(request: Any) -> Any:
        return say(request.json["input"][0]["content"][0]["text"])

    with ResponsesServer([echo] * 50) as server:
        assert asyncio.run(run(server.url)) == [str(number) for number in range(50)]


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_giving_up_ends_the_request_at_once(env: dict[str, str], how: str) -> None:
    async def run(url: str) -> None:
        client = ResponsesProvider().open(ResponsesProvider.builtin["ollama"].evolve(base_url=url), env)
        stream: Any = client.stream(model_request())
        await anext(stream)
        if how == "close":
            await stream.aclose()
        else:

            async def read() -> None:
                async for _ in stream:
                    pass

            task = asyncio.create_task(read())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await client.aclose()
        await client.aclose()

    with ResponsesServer([say("hello", deltas=3) + fault(after=3, hang_s=30)]) as server:
        asyncio.run(run(server.url))
        assert server.requests[0].answered_at == 0.0, "the server had ended its silence before the client gave up"


def test_a_server_that_closes_kept_connections_does_no_harm(env: dict[str, str]) -> None:
    async def run(url: str, stop: Callable[[], None], again: Callable[[], ResponsesServer]) -> list[int]:
        info = ResponsesProvider.builtin["ollama"].evolve(base_url=url, request_max_retries=0)
        client = ResponsesProvider().open(info, env)
        counts = [len([event async for event in client.stream(model_request())])]
        stop()
        with again():
            counts.append(len([event async for event in client.stream(model_request())]))
        await client.aclose()
        return counts

    first = ResponsesServer([say("a")]).start()
    port = int(first.url.split(":")[2].split("/")[0])
    assert asyncio.run(run(first.url, first.stop, lambda: ResponsesServer([say("b")], port=port))) == [4, 4]


EVENTS = st.lists(
    st.dictionaries(st.sampled_from(["type", "delta", "n"]), st.text(max_size=8) | st.integers(), min_size=1),
    max_size=6,
)


@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_events_are_the_same_wherever_the_network_cuts_them(
    payloads: list[dict[str, Any]], line_end: str, cuts: list[int], named: bool
) -> None:
    import json

    expected = [json.dumps(payload, ensure_ascii=False) for payload in payloads]
    lines = [
        line
        for data in expected
        for line in ([": ping", "event: x"] if named else []) + [f"data: {data}" if named else f"data:{data}", ""]
    ]
    text = "".join(line + line_end for line in lines)
    wire = text.encode()
    places = [0, *sorted(cut for cut in cuts if cut < len(wire)), len(wire)]
    splitter, found = EventSplitter(), []
    for start, stop in itertools.pairwise(places):
        found.extend(splitter.feed(wire[start:stop]))
    assert found == expected


def test_several_data_lines_are_one_text() -> None:
    assert EventSplitter().feed(b"\xef\xbb\xbfdata: a\ndata:  b\ndata\nid: 1\n\n") == ["a\n b\n"]


def test_the_lines_of_an_event_are_searched_once() -> None:
    """The time for an event grows with the number of its lines, not with its square."""

    def seconds(lines: int) -> float:
        splitter, line = EventSplitter(), b"data: " + b"x" * 1000 + b"\n"
        started = time.process_time()
        events = [splitter.feed(line) for _ in range(lines)]
        took = time.process_time() - started
        assert not any(events)
        assert splitter.feed(b"\n") == ["\n".join(["x" * 1000] * lines)]
        return took

    few, many = (min(seconds(lines) for _ in range(5)) for lines in (200, 1600))
    assert many < 24 * few


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_last_event_ends_with_any_line_end(end: str, size: int) -> None:
    body = "data: one||data: two|data: lines||: no event||data: three||".replace("|", end).encode()
    splitter = EventSplitter()
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert [data for piece in pieces for data in splitter.feed(piece)] == ["one", "two\nlines", "three"]


def test_a_line_end_and_half_of_another_end_an_event() -> None:
    splitter = EventSplitter()
    assert [splitter.feed(piece) for piece in (b"data: a\n\r", b"\ndata: b\n\n")] == [["a"], ["b"]]


def test_the_limit_of_an_event_is_not_that_of_all_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_lib_model_client.sse.EVENT_LIMIT", 20)
    splitter = EventSplitter()
    assert [splitter.feed(piece) for piece in (b"data: 123456", b"\n\n") * 5] == [[], ["123456"]] * 5


def test_bytes_that_are_no_text_do_not_stop_the_stream() -> None:
    assert EventSplitter().feed(b"data: \xff\xfe\n\ndata: ok\n\n") == ["\ufffd\ufffd", "ok"]


def test_no_other_http_client_is_imported() -> None:
    program = """
import asyncio, sys
from codex_framework.testing.replies import say
from codex_framework.testing.requests import ask
from codex_framework.testing.server import ResponsesServer
from codex_framework import ProviderInfo
from codex_plugin_openai.provider import ResponsesProvider
with ResponsesServer([say("hi")]) as server:
    info = ProviderInfo(id="x", base_url="http://models.invalid/v1")
    asyncio.run(ask(ResponsesProvider(), info, env={"HTTP_PROXY": server.url.removesuffix("/v1")}))
print([name for name in ("anyio", "certifi", "h11", "httpcore", "httpx", "socksio", "urllib.request") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
