"""The parser of server-sent events: any way of cutting the bytes gives the same events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_mcp.transports.event_stream import EventStreamParser, ServerSentEvent, TooLargeError

STREAM = (
    "\ufeff: a comment\r\n\r\n"
    "data: one\n\n"
    "event: endpoint\rdata:two\rdata: three\r\r"
    "id: 7\r\nretry: 250\r\ndata\r\n\r\n"
    "id: 8\n\n"
    "retry: soon\nid: a\0b\ndata:  four é\nunknown: x\n\n"
    "data: never complete\n"
).encode()
EVENTS = [
    ServerSentEvent("message", "one"),
    ServerSentEvent("endpoint", "two\nthree"),
    ServerSentEvent("message", "", "7", 250),
    ServerSentEvent("message", "", "8"),
    ServerSentEvent("message", " four é"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    parser = EventStreamParser(1_000)
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_byte_by_byte() -> None:
    parser = EventStreamParser(1_000)
    assert [event for byte in STREAM for event in parser.feed(bytes([byte]))] == EVENTS


def feed_slowly(parser: EventStreamParser, data: bytes) -> None:
    for byte in data:
        parser.feed(bytes([byte]))


@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, b"data: x\n" * 30, b":" + b"x" * 200])
def test_an_event_over_the_limit_is_refused(data: bytes) -> None:
    with pytest.raises(TooLargeError):
        feed_slowly(EventStreamParser(100), data)


def test_many_small_events_are_not_over_the_limit() -> None:
    parser = EventStreamParser(100)
    assert len(parser.feed(b"data: x\n\n" * 1_000)) == 1_000
