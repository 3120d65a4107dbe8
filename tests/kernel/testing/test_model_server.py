"""The loopback server for providers: both APIs, and its faults, byte by byte."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from typing import Any

import pytest

from codex_framework.contract.errors import ConfigError
from codex_framework.testing import (
    CHAT,
    MESSAGES,
    RESPONSES,
    ModelServer,
    Reply,
    call,
    custom_call,
    fault,
    reasoning,
    say,
)
from codex_framework.testing.chat_wire import chat_completion
from codex_framework.testing.script_files import read_script

REPLY = reasoning("hm") + say("Hello there.", deltas=2) + call("f", a=1) + call("g", b=2)


def post(url: str, path: str = "/chat/completions") -> str:
    request = urllib.request.Request(f"{url}{path}", b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def chunks(stream: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in stream.split("\n") if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_one_script_answers_both_apis() -> None:
    with ModelServer([say("one"), say("two")]) as server:
        first, second = post(server.url), post(server.url, "/responses")
    assert first.endswith("data: [DONE]\n\n")
    assert "response.completed" in second
    assert [request.path for request in server.requests] == ["/v1/chat/completions", "/v1/responses"]


def test_a_reply_as_chunks() -> None:
    with ModelServer([REPLY], wires=[CHAT]) as server:
        *deltas, end, usage = chunks(post(server.url))
    found = [chunk["choices"][0]["delta"] for chunk in deltas]
    assert [next(iter(delta)) for delta in found] == [
        "role",
        *["reasoning_content"] * 2,
        *["content"] * 2,
        *["tool_calls"] * 6,
    ]
    assert "".join(delta.get("content") or "" for delta in found) == "Hello there."
    pieces = [piece for delta in found for piece in delta.get("tool_calls", ())]
    assert [piece["index"] for piece in pieces] == [0, 0, 0, 1, 1, 1]
    assert "".join(piece["function"]["arguments"] for piece in pieces) == '{"a": 1}{"b": 2}'
    assert end["choices"] == [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 120)


def test_a_reply_as_one_object() -> None:
    whole = chat_completion(say("Hi.") + custom_call("g", "text"))
    (choice,) = whole["choices"]
    assert choice["message"]["content"] == "Hi."
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "g", "arguments": '{"input": "text"}'}
    assert choice["finish_reason"] == "tool_calls"


def body_of(server: ModelServer) -> bytes:
    """Return the body as far as it came, with the sizes of its chunks."""
    host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        read = b""
        while more := connection.recv(65_536):
            read += more
    return read.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("count", [0, 1, 100, 333])
def test_a_response_is_cut_at_a_byte(count: int) -> None:
    with ModelServer([REPLY + fault(cut_at=count)]) as server:
        assert len(body_of(server)) == count


def test_a_response_is_cut_with_a_reset() -> None:
    with ModelServer([REPLY + fault(cut_at=10, reset=True)]) as server, pytest.raises(ConnectionResetError):
        body_of(server)


def test_a_response_may_come_slowly() -> None:
    with ModelServer([REPLY + fault(piece_bytes=200, piece_pause_s=0.01)]) as server:
        began = time.monotonic()
        assert post(server.url).endswith("[DONE]\n\n")
        assert time.monotonic() - began > 0.05


@pytest.mark.parametrize("wire", [CHAT, MESSAGES, RESPONSES])
def test_events_may_be_repeated_and_garbled(wire: Any) -> None:
    plain = wire.events(REPLY, 1)
    with ModelServer([REPLY + fault(duplicates=[1, 3], garbled=[3])], wires=[wire]) as server:
        blocks = post(server.url, wire.path).split("\n\n")[:-1]
    assert len(blocks) == len(plain) + 2
    assert blocks[1] == blocks[2] == plain[1].decode().strip()
    assert blocks[4] == blocks[5]
    assert plain[3].decode().startswith(blocks[4])
    assert len(blocks[4]) < len(plain[3]) - 2


def test_items_may_come_in_another_order() -> None:
    with ModelServer([REPLY + fault(out_of_order=True)] * 2) as server:
        indices = [
            piece["index"]
            for chunk in chunks(post(server.url))
            for choice in chunk["choices"]
            for piece in choice["delta"].get("tool_calls", ())
        ]
        done = [
            event["item"]["type"]
            for event in chunks(post(server.url, "/responses"))
            if event["type"] == "response.output_item.done"
        ]
    assert indices == [1, 1, 1, 0, 0, 0]
    assert done == ["function_call", "function_call", "message", "reasoning"]


def test_the_ends_of_a_stream() -> None:
    replies = [
        say("a") + fault(incomplete="max_output_tokens"),
        say("a") + fault(incomplete="content_filter"),
        say("a") + fault(failed="broken"),
        say("a").evolve(usage=None) + fault(no_completed=True),
    ]
    with ModelServer(replies) as server:
        length, filtered, failed, open_end = (post(server.url) for _ in replies)
    assert '"finish_reason":"length"' in length
    assert '"finish_reason":"content_filter"' in filtered
    assert chunks(failed)[-1] == {"error": {"code": "broken", "message": "broken"}}
    assert "[DONE]" not in open_end
    assert 'finish_reason":"' not in open_end


def test_headers_of_a_reply_override_the_usual_ones() -> None:
    with ModelServer([say("a").evolve(headers={"Content-Type": "text/plain"})]) as server:
        request = urllib.request.Request(f"{server.url}/responses", b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers.get_all("content-type") == ["text/plain"]


def test_an_author_may_bring_an_api(tmp_path: Any) -> None:
    class Lines:
        name, path = "lines", "/lines"

        def events(self, reply: Reply, number: int, /) -> list[bytes]:
            return [b"%d items\n" % len(reply.items)]

    with ModelServer([REPLY], wires=[Lines()]) as server:
        assert post(server.url, "/lines") == "4 items\n"


def test_faults_can_be_written_in_a_script(tmp_path: Any) -> None:
    script = tmp_path / "script.toml"
    script.write_text(
        'responses = [{output = ["a"], cut_at = 5, piece_bytes = 2, piece_pause_ms = 10, duplicates = [1], garbled = [0],'
        " out_of_order = true}]"
    )
    (reply,) = read_script(script).replies
    assert isinstance(reply, Reply)
    assert reply == say("a") + fault(
        cut_at=5, piece_bytes=2, piece_pause_s=0.01, duplicates=[1], garbled=[0], out_of_order=True
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[[responses]]\nbogus = 1",
            "an output needs one of: say, reasoning, call, custom_call, local_shell, type",
        ),
        ("[[responses]]\nsay = 5", "`say` is 5, not a string"),
        ("[[responses]]\noutput = [{reasoning = 'x', say = 'y'}]", "`say` does not have: reasoning"),
        ("[[responses]]\noutput = [{custom_call = 'x'}]", "`custom_call` needs: input"),
        ("[[responses]]\nsay = 'a'\nrepeat = -1", "`repeat` is -1, not a number from 1"),
        ("[[responses]]\nstatus = 'x'", "`status`: 'x' is not a number from 0"),
        ("[[responses]]\ngarbled = 3", "`garbled`: 3 is not a list of numbers"),
        ("[[responses]]\nhang_ms = 'x'", "`hang_ms`: 'x' is not a number of milliseconds"),
        ("[[responses]]\nerror = {nope = 1}", "`error`: `error` needs a message, and may have: retryable"),
        ("[[responses]]\nsay = 'x'\nusage = {input_tokens = 'x'}", "`usage`: invalid value for type, expected int"),
    ],
)
def test_a_mistake_in_a_script_is_told_with_its_response(tmp_path: Any, text: str, told: str) -> None:
    script = tmp_path / "script.toml"
    script.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_script(script)
    assert str(caught.value).startswith(f"{script}: response 1: {told}")


class Lines:
    """An API without names of events."""

    name = "lines"
    path = "/lines"

    def events(self, reply: Reply, number: int) -> list[bytes]:
        return [b'{"text": "x"}\n'] * reply.deltas + [b'{"done": true}\n']


@pytest.mark.parametrize(
    ("wire", "path"),
    [(RESPONSES, "/responses"), (CHAT, "/chat/completions"), (MESSAGES, "/messages"), (Lines(), "/lines")],
)
def test_pieces_come_with_pauses_between_them_over_every_api(wire: Any, path: str) -> None:
    with ModelServer([say("abcdef", deltas=6, delta_delay_s=0.05)], wires=[wire]) as server:
        request = urllib.request.Request(f"{server.url}{path}", b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            arrived = [time.monotonic() for _ in answer]
    assert arrived[-1] - arrived[0] >= 5 * 0.04, "five of the six pauses are within the body"
