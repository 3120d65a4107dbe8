"""A connection that is kept for the next request must be between two messages."""

from __future__ import annotations

from websockets.frames import Frame, Opcode

from tests.plugins.openai.test_websockets import Wire, opened


def frame(opcode: int, data: bytes, *, fin: bool) -> bytes:
    return bytes([(0x80 if fin else 0) | opcode, len(data)]) + data


def test_a_connection_with_half_a_message_is_not_silent() -> None:
    connection, websocket = opened(Wire())
    assert websocket.silent()
    connection.data_received(frame(0x1, b"half", fin=False))
    assert not websocket.silent()
    assert not websocket.silent(), "the half that was read still counts"
    assert websocket.feed(frame(0x0, b" and half", fin=True)) == ["half and half"]
    assert websocket.silent()


def test_a_message_that_nobody_asked_for_makes_a_connection_unusable() -> None:
    _, websocket = opened(Wire(), Frame(Opcode.TEXT, b"half", fin=False))
    assert websocket.feed(b"\x89\x01a") == []
    assert not websocket.silent()
