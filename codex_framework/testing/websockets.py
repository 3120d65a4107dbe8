"""WebSockets of the loopback model server, on the sans-I/O protocol of websockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from codex_framework.testing.scripted import Fault, Reply

__all__ = ["serve_websocket"]

Answer = tuple[Reply, list[bytes]]


def serve_websocket(
    connection: socket.socket,
    number: int,
    head: bytes,
    answer: Callable[[bytes, float], Answer | None],
    pause: Callable[[float], bool],
) -> None:
    """Accept a WebSocket and answer its messages, until one of both sides closes it.

    A message with ``"generate": false`` is answered without the script, as servers do that only prepare for the next one.

    Args:
        number: The number of the connection, for the ids of prepared responses.
        head: The bytes of the request for the WebSocket.
        answer: Returns the reply to a message and its events, given the message and the time of its arrival. None if the
            script is at its end.
        pause: Waits for some seconds. Returns whether the server is stopping.
    """
    protocol = ServerProtocol(max_size=None)
    protocol.receive_data(head)
    (request,) = protocol.events_received()
    assert isinstance(request, Request)
    protocol.send_response(protocol.accept(request))
    _flush(connection, protocol)
    prepared = 0
    for message, arrived in _messages(connection, protocol):
        if json.loads(message).get("generate") is False:
            prepared += 1
            for event in _prepared_events(f"prepared_{number}_{prepared}"):
                protocol.send_text(json.dumps(event).encode())
            _flush(connection, protocol)
            continue
        answered = answer(message, arrived)
        if answered is None:
            error = {"code": "script_end", "message": "the script of the server has no more replies"}
            protocol.send_text(json.dumps({"type": "error", "status": 400, "error": error}).encode())
            _flush(connection, protocol)
        elif not _send(connection, protocol, *answered, pause):
            return


def _messages(connection: socket.socket, protocol: ServerProtocol) -> Iterator[tuple[bytes, float]]:
    parts: list[bytes] = []
    arrived = 0.0
    while data := connection.recv(262_144):
        protocol.receive_data(data)
        for frame in protocol.events_received():
            assert isinstance(frame, Frame)
            if frame.opcode in (Opcode.TEXT, Opcode.CONT):
                arrived = arrived or time.monotonic()
                parts.append(bytes(frame.data))
                if frame.fin:
                    yield b"".join(parts), arrived
                    parts.clear()
                    arrived = 0.0
        _flush(connection, protocol)
        if protocol.close_sent is not None:
            return


def _send(
    connection: socket.socket,
    protocol: ServerProtocol,
    reply: Reply,
    events: list[bytes],
    pause: Callable[[float], bool],
) -> bool:
    """Send the events of a reply. Return False if the connection ends with it."""
    fault = reply.fault or Fault()
    if (wait := reply.delay_s + (fault.hang_s if fault.after is None else 0.0)) and pause(wait):
        return False
    if fault.status is not None:
        body = fault.body if isinstance(fault.body, dict) else {"error": {"message": fault.body or ""}}
        refusal = {"type": "error", "status": fault.status, "headers": dict(fault.headers), **body}
        protocol.send_text(json.dumps(refusal).encode())
        _flush(connection, protocol)
        return True
    for event in events[: fault.after]:
        for data in _data(event):
            if reply.delta_delay_s and b".delta" in data[:80] and pause(reply.delta_delay_s):
                return False
            protocol.send_text(data)
        if reply.delta_delay_s:
            _flush(connection, protocol)
    if fault.cut_at is not None:
        connection.sendall(b"".join(protocol.data_to_send())[: fault.cut_at])
        return False
    _flush(connection, protocol)
    if fault.after is not None:
        pause(fault.hang_s)
        return False
    return True


def _data(events: bytes) -> Iterator[bytes]:
    """Yield the data of server-sent events, without comments and other lines."""
    for event in events.split(b"\n\n"):
        lines = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
        if lines:
            yield b"\n".join(lines)


def _prepared_events(response_id: str) -> list[dict[str, Any]]:
    response = {"id": response_id}
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.completed", "response": {**response, "usage": usage}},
    ]


def _flush(connection: socket.socket, protocol: ServerProtocol) -> None:
    data = b"".join(protocol.data_to_send())
    if data:
        connection.sendall(data)
