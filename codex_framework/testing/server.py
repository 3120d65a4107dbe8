"""A real model server on loopback that answers from a script, including faulty answers.

    with ModelServer([call("exec_command", cmd="ls"), say("done") + fault(cut_at=300), say("done")]) as server:
        ...  # point a provider at server.url
    assert server.requests[1].json["messages"][-1]["role"] == "tool"

It has the Responses API, the Chat Completions API and the Messages API; the path of a request decides.

It uses only the standard library, has one thread per connection, and encodes answers in advance, so that its own time is a small
part of what a benchmark measures. ``python -m codex_framework.testing.server_process --script FILE`` runs it as a process.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import attrs

from codex_framework.testing.reading import MalformedError, RecordedRequest, read_requests
from codex_framework.testing.scripted import Fault, Reply, ReplySource, Script, ScriptEndError
from codex_framework.testing.wire import RESPONSES, Wire, reply_bytes

__all__ = ["ModelServer", "RecordedRequest", "ResponsesServer"]


class ModelServer:
    """The server. Use it as a context manager, or call ``start`` and ``stop``.

    Args:
        replies: The answers, in order: replies, or functions from :class:`RecordedRequest` to a reply. A request
            after the last one is answered with status 400.
        repeat_last: Whether to repeat the last reply forever instead.
        chunk_events: Whether to send each event as a separate HTTP chunk, as real servers do, and not the response in one chunk.
        wires: The APIs. By default, Responses, Chat Completions and Messages.

    Attributes:
        requests: Every request, in order of arrival. A message over a WebSocket has the method ``WEBSOCKET``.
        upgrades: Every request for a WebSocket.
        connections: The number of opened TCP connections.
    """

    def __init__(
        self,
        replies: Iterable[ReplySource],
        *,
        repeat_last: bool = False,
        chunk_events: bool = True,
        port: int = 0,
        wires: Sequence[Wire] | None = None,
        websockets: bool = False,
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.upgrades: list[RecordedRequest] = []
        self.connections = 0
        self._script = Script(replies, repeat_last=repeat_last)
        self._chunk_events = chunk_events
        self._wires = _wires() if wires is None else wires
        self._encoded = {
            number: self._encode(source, number, self._wires[0])
            for number, source in enumerate(self._script.replies, 1)
            if isinstance(source, Reply) and len(self._wires) == 1
        }
        self._websockets = websockets
        self._port = port
        self._listener: socket.socket | None = None
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *exception: object) -> None:
        """Stop."""
        self.stop()

    @property
    def url(self) -> str:
        """The ``base_url`` of a provider: ``http://127.0.0.1:PORT/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> Self:
        """Start listening and answering, in threads."""
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        self._port = self._listener.getsockname()[1]
        thread = threading.Thread(target=self._accept, args=(self._listener,), name="model-server", daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    def stop(self) -> None:
        """Close all connections and release all resources. Safe to call twice."""
        self._stopping.set()
        if self._listener is not None:
            with contextlib.suppress(
                OSError
            ):  # some systems cannot shut down a listening socket; there, closing it is sufficient
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        with self._lock:
            for connection in self._sockets:
                with contextlib.suppress(OSError):  # the client has already disconnected
                    connection.shutdown(socket.SHUT_RDWR)
            threads = list(self._threads)
        for thread in threads:
            thread.join(5)

    def wait_for(self, count: int, timeout_s: float = 60.0) -> RecordedRequest:
        """Wait until ``count`` requests have arrived, and return the last of them.

        Raises:
            TimeoutError: They did not arrive in time.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came within {timeout_s} s")
            return self.requests[count - 1]

    def wait_closed(self, timeout_s: float = 60.0) -> int:
        """Wait until no TCP connection is open, and return how many are open after that time."""
        with self._arrived:
            self._arrived.wait_for(lambda: not self._sockets, timeout_s)
            return len(self._sockets)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed by stop()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._sockets.add(connection)
                thread = threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True)
                self._threads.append(thread)
            thread.start()
            if self._stopping.is_set():
                return

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection:
                try:
                    requests = read_requests(connection, number)
                    while (request := next(requests, None)) is not None and self._answer(connection, request):
                        pass
                except MalformedError as error:  # the client under test is wrong, and is told why
                    connection.sendall(_plain(400, {"connection": "close"}, {"error": {"message": str(error)}}))
        except OSError:  # the client has disconnected, or stop() has closed the connection
            return
        finally:
            with self._arrived:
                self._sockets.discard(connection)
                self._arrived.notify_all()

    def _answer(self, connection: socket.socket, request: RecordedRequest) -> bool:
        """Answer one request. Return False if the connection cannot be used any longer."""
        path = request.path.split("?")[0]
        wire = next((wire for wire in self._wires if path.endswith(wire.path)), None)
        if wire is not None and request.headers.get("upgrade", "").lower() == "websocket":
            return self._upgrade(connection, request, wire)
        if request.method != "POST" or wire is None:
            connection.sendall(_plain(404, {}, {"error": {"message": f"no {request.method} {request.path} here"}}))
            return True
        self._note(request)
        try:
            number, source = self._script.next()
        except ScriptEndError as error:
            connection.sendall(_plain(400, {}, {"error": {"message": str(error), "code": error.slug}}))
            return True
        reply = source if isinstance(source, Reply) else source(request)
        events = self._encoded.get(number) or self._encode(reply, number, wire)
        try:
            return self._send(connection, reply, events)
        finally:
            request.answered_at = time.monotonic()

    def _note(self, request: RecordedRequest) -> None:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()

    def _upgrade(self, connection: socket.socket, request: RecordedRequest, wire: Wire) -> bool:
        """Serve a WebSocket. Return False if the connection was used up by it, or True if no upgrade was requested."""
        self.upgrades.append(request)
        if not self._websockets:
            connection.sendall(_plain(426, {}, {"error": {"message": "this server has no WebSockets"}}))
            return True
        from codex_framework.testing.websockets import serve_websocket

        lines = [f"GET {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in request.headers.items())]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        received: list[RecordedRequest] = []

        def answer(message: bytes, arrived: float) -> tuple[Reply, list[bytes]] | None:
            received.append(attrs.evolve(request, method="WEBSOCKET", body=message, received_at=arrived))
            self._note(received[-1])
            try:
                number, source = self._script.next()
            except ScriptEndError:
                return None
            reply = source if isinstance(source, Reply) else source(received[-1])
            return reply, _with_faults(reply_bytes(wire, reply, number), reply.fault or Fault())

        serve_websocket(connection, request.connection, head, answer, self._stopping.wait)
        return False

    def _encode(self, reply: Reply, number: int, wire: Wire) -> list[bytes]:
        """Return the parts of the body. Each is sent as one piece, and counts as one for ``Fault.after``."""
        if reply.fault is not None and reply.fault.status is not None:
            return [_plain(reply.fault.status, reply.fault.headers, reply.fault.body)]
        events = _with_faults(reply_bytes(wire, reply, number), reply.fault or Fault())
        paced = reply.delta_delay_s or (reply.fault is not None and reply.fault.after is not None)
        if not self._chunk_events:
            chunks = [_chunk(event) for event in events] if paced else [_chunk(b"".join(events))]
        else:
            chunks = [_chunk(event) for event in events]
        return chunks if paced else [b"".join([_head(reply), *chunks, b"0\r\n\r\n"])]

    def _send(self, connection: socket.socket, reply: Reply, parts: list[bytes]) -> bool:
        fault = reply.fault or Fault()
        pause = reply.delay_s + (fault.hang_s if fault.after is None else 0.0)
        if pause and self._stopping.wait(pause):
            return False
        if fault.cut_at is not None or fault.piece_bytes:
            return self._send_bytes(connection, reply, b"".join(parts), fault)
        if len(parts) == 1 and (fault.status is not None or parts[0].startswith(b"HTTP/")):
            connection.sendall(parts[0])
            return True
        connection.sendall(_head(reply))
        if not reply.delta_delay_s:
            connection.sendall(b"".join(parts[: fault.after]))
        else:
            named = any(
                b"delta\n" in part for part in parts
            )  # APIs whose events have names; others pause before each event
            for number, part in enumerate(parts[: fault.after]):
                is_piece = b"delta\n" in part if named else number > 0
                if is_piece and self._stopping.wait(reply.delta_delay_s):
                    return False
                connection.sendall(part)
        if fault.after is not None:
            return self._cut(connection, fault)
        connection.sendall(b"0\r\n\r\n")
        return True

    def _send_bytes(self, connection: socket.socket, reply: Reply, response: bytes, fault: Fault) -> bool:
        """Send a response slowly, or only its beginning."""
        if not response.startswith(b"HTTP/"):
            response = _head(reply) + response + b"0\r\n\r\n"
        head, separator, body = response.partition(b"\r\n\r\n")
        connection.sendall(head + separator)
        body = body[: fault.cut_at]
        step = fault.piece_bytes or max(len(body), 1)
        for start in range(0, len(body), step):
            if start and fault.piece_pause_s and self._stopping.wait(fault.piece_pause_s):
                return False
            connection.sendall(body[start : start + step])
        return True if fault.cut_at is None else self._cut(connection, fault)

    def _cut(self, connection: socket.socket, fault: Fault) -> bool:
        self._stopping.wait(fault.hang_s)
        if fault.reset:
            # Lingering for zero seconds turns the following close into a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


class ResponsesServer(ModelServer):
    """A :class:`ModelServer` that has only the Responses API, and encodes its answers in advance."""

    def __init__(
        self,
        replies: Iterable[ReplySource],
        *,
        repeat_last: bool = False,
        chunk_events: bool = True,
        port: int = 0,
        websockets: bool = False,
    ) -> None:
        super().__init__(
            replies,
            repeat_last=repeat_last,
            chunk_events=chunk_events,
            port=port,
            wires=(RESPONSES,),
            websockets=websockets,
        )

    @property
    def inputs(self) -> list[list[dict[str, Any]]]:
        """The ``input`` of every request."""
        return [request.json["input"] for request in self.requests]


def _wires() -> Sequence[Wire]:
    from codex_framework.testing.chat_wire import CHAT
    from codex_framework.testing.messages_wire import MESSAGES

    return (RESPONSES, CHAT, MESSAGES)


def _with_faults(events: list[bytes], fault: Fault) -> list[bytes]:
    """Return the events with their faults: duplicated events appear twice, and garbled events lose their second half."""
    if not (fault.duplicates or fault.garbled):
        return events
    result: list[bytes] = []
    for number, event in enumerate(events):
        sent = event[: len(event) // 2] + b"\n\n" if number in fault.garbled else event
        result.extend([sent] * (2 if number in fault.duplicates else 1))
    return result


def _head(reply: Reply) -> bytes:
    fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    fields.update({name.lower(): value for name, value in reply.headers.items()})
    lines = ["HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _plain(status: int, headers: Mapping[str, str], body: str | Mapping[str, Any] | None) -> bytes:
    """Return a complete response that is not a stream."""
    import http

    is_text = isinstance(body, str)
    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    fields = {"content-type": "text/plain" if is_text else "application/json"}
    fields.update({name.lower(): value for name, value in headers.items()})
    fields["content-length"] = str(len(data))
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data
