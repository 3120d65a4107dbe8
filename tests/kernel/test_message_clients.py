"""The toolkit for providers of APIs that consist of messages and functions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import Completed, ItemDone, Message, ModelError, OutputText, ProviderInfo
from codex_framework.contract.protocol.items import CustomToolCall, FunctionCall, LocalShellCall
from codex_framework.testing import ModelServer, fault, model_request, say
from codex_lib_model_client import splitter as splitting
from codex_lib_model_client.functions import Projection, call_events
from codex_lib_model_client.message_client import MessageClient
from codex_lib_model_client.splitter import LineSplitter, PageError
from codex_lib_model_client.table import OptionReader

# Lines


def lines_of(*pieces: bytes) -> list[str]:
    splitter = LineSplitter()
    return [*(event for piece in pieces for event in splitter.feed(piece)), *splitter.rest()]


def test_lines_are_events_however_they_are_cut() -> None:
    body = '\ufeff{"a": 1}\r\n\n  {"b": "ü"}\n{}'.encode()
    expected = ['{"a": 1}', '{"b": "ü"}', "{}"]
    assert lines_of(body) == expected
    assert lines_of(*(body[number : number + 1] for number in range(len(body)))) == expected
    assert lines_of(b"", b"\n\n", b"") == []


def test_a_page_is_recognised_and_an_endless_line_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for page in ((b"\n <html>\n",), (b"<html>",)):
        with pytest.raises(PageError):
            lines_of(*page)
    assert lines_of(b"{}\n<b>") == ["{}", "<b>"], "only the beginning decides"
    monkeypatch.setattr(splitting, "EVENT_LIMIT", 10)
    assert lines_of(b"x" * 10) == ["x" * 10]
    with pytest.raises(OverflowError):
        lines_of(b"x" * 6, b"x" * 6)


# The client


class Said:
    """A reply of which each event is a text, and the last one is ``end``."""

    def __init__(self) -> None:
        self.alive = self.finished = self.complete = False
        self.nothing = ModelError("nothing")
        self.heard: list[str] = []

    def feed(self, data: str) -> list[Any]:
        assert not self.complete, "it is not asked after the end"
        self.alive = True
        self.heard.append(data)
        self.finished = self.complete = data == "end"
        text = Message("assistant", (OutputText(" ".join(self.heard[:-1])),))
        return [ItemDone(text)] if self.complete else []

    def end(self) -> None:
        raise ModelError("it broke off", retryable=True)

    def completion(self) -> Completed:
        return Completed("r")


class Bodies:
    def body(self, _: Any) -> bytes:
        return b'{"a": 1}'

    def projection(self, _: Any) -> Projection:
        return Projection(())

    def losses(self, _: Any) -> list[Any]:
        return []


class Client(MessageClient):
    path = "/said"
    noun = "saying"
    sent_headers = ("user-agent",)

    def reply(self, _: Projection) -> Said:
        return Said()

    def splitter(self) -> LineSplitter:
        return LineSplitter()


class Wire:
    name = "said"
    path = "/said"

    def __init__(self, *lines: bytes) -> None:
        self._lines = [line + b"\n" for line in lines]

    def events(self, *_: Any) -> list[bytes]:
        return self._lines


def ask(*lines: bytes, reply: Any = None) -> tuple[list[Any] | ModelError, Any]:
    async def run(url: str) -> list[Any] | ModelError:
        info = ProviderInfo(id="mine", base_url=url, request_max_retries=0, stream_idle_timeout_ms=2000)
        client = Client(info, {}, f"{url}/said", {"x-mine": "1"}, Bodies())
        try:
            return [event async for event in client.stream(model_request())]
        except ModelError as error:
            return error
        finally:
            await client.aclose()

    with ModelServer([reply or say("x")], wires=[Wire(*lines)]) as server:
        outcome = asyncio.run(run(server.url))
        assert len(server.requests) == 1
        return outcome, server.requests[0]


def test_a_server_that_demands_short_ids_is_not_asked_again_by_a_client_that_writes_none() -> None:
    words = "Tool call IDs should be alphanumeric strings with length 9!"
    error, _ = ask(reply=fault(400, body={"error": {"message": words}}))
    assert isinstance(error, ModelError)
    assert words in error.fact


def test_a_reply_gets_the_lines_up_to_its_end() -> None:
    events, request = ask(b"one", b"two", b"end", b"three")
    assert isinstance(events, list)
    assert [type(event) for event in events] == [ItemDone, Completed]
    assert (request.json, request.headers["x-mine"]) == ({"a": 1}, "1")
    assert "user-agent" in request.headers
    assert "session_id" not in request.headers


@pytest.mark.parametrize(
    ("reply", "slug", "words"),
    [
        (say("x") + fault(no_completed=True), "error", "it broke off"),
        (fault(200, body="<html>\n"), "not-a-response", "a web page"),
        (fault(200, body="<html>"), "not-a-response", "a web page"),
        (fault(404, body=""), "unexpected-status", "404"),
    ],
)
def test_what_is_no_response_is_an_error(reply: Any, slug: str, words: str) -> None:
    error, _ = ask(b"one", b"end", reply=reply)
    assert isinstance(error, ModelError)
    assert (words in error.fact, error.slug) == (True, error.slug if slug == "error" else slug)
    if slug == "not-a-response":
        assert "model provider 'mine': /said is added to it" in error.hint


def test_a_call_begins_without_its_arguments() -> None:
    for call, begun in (
        (FunctionCall("f", '{"a": 1}', "c"), FunctionCall("f", "", "c")),
        (CustomToolCall("f", "text", "c"), CustomToolCall("f", "", "c")),
        (LocalShellCall({"type": "exec"}, "c"), LocalShellCall({"type": "exec"}, "c")),
    ):
        added, done = call_events(call)
        assert (added.item, done.item) == (begun, call)  # type: ignore[union-attr]


# Options


def test_options_are_read_with_their_defaults() -> None:
    read = OptionReader(
        ProviderInfo(
            id="mine", options={"some": ["a"], "n": 3, "kind": "b", "word": "w", "on": True, "request_fields": {"x": 1}}
        )
    )
    assert (read.text("word"), read.text("none"), read.text("none", "d")) == ("w", "", "d")
    assert (read.flag("on"), read.flag("none"), read.flag("none", default=True)) == (True, False, True)
    assert (read.texts("some"), read.texts("none", ("d",))) == (("a",), ("d",))
    assert (read.count("n", least=1, noun="tokens"), read.count("none", least=1, noun="tokens")) == (3, None)
    assert (read.choice("kind", ("a", "b")), read.choice("none", ("a", "b"))) == ("b", "a")
    assert read.fields(("model",)) == ({"x": 1}, ())


@pytest.mark.parametrize("value", [0, True, "3", 2.0, None, [], {}])
def test_a_wrong_option_is_named(value: Any) -> None:
    read = OptionReader(ProviderInfo(id="mine", options={"key": value, "request_fields": {"model": 1}}))
    for ask_for in (
        lambda: read.count("key", least=1, noun="tokens"),
        lambda: read.choice("key", ("a", "b")),
        lambda: read.texts("key") if value != [] else read.choice("key", ("a",)),
        lambda: read.text("key") if value != "3" else read.flag("key"),
        lambda: read.flag("key") if value is not True else read.text("key"),
    ):
        with pytest.raises(ModelError, match=r"model_providers\.mine\.key is ") as caught:
            ask_for()
        assert caught.value.hint
    with pytest.raises(ModelError, match="names 'model', which is always sent"):
        read.fields(("model",))
