"""Responses over WebSockets: what is sent, what is kept, and what happens when the connection fails."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection, serve
from websockets.uri import parse_uri

import codex_plugin_openai
from codex_framework import ItemDone, Kernel, ModelError, ModelEvent, ModelRequest, ProviderInfo, TextDelta, tool
from codex_framework.config import load_config
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import StreamErrorEvent
from codex_framework.contract.protocol.items import FunctionCallOutput, Message, OutputText, user_message
from codex_framework.contract.roles.models import ModelWarning, RateLimits
from codex_framework.testing import Offer
from codex_framework.testing.replies import call, custom_call, fault, reasoning, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.server import ResponsesServer
from codex_lib_model_client.connection import Connection
from codex_lib_model_client.websocket import WebSocket
from codex_plugin_openai import sockets
from codex_plugin_openai.client import ResponsesClient
from codex_plugin_openai.provider import ResponsesProvider


@attrs.frozen
class Outcome:
    answers: list[list[ModelEvent] | ModelError]
    server: ResponsesServer

    @property
    def methods(self) -> list[tuple[str, int]]:
        return [(request.method, request.connection) for request in self.server.requests]


def table(url: str, **settings: Any) -> ProviderInfo:
    options = {"supports_websockets": True, **settings.pop("options", {})}
    defaults: dict[str, Any] = {"request_max_retries": 0, "stream_max_retries": 1, "stream_idle_timeout_ms": 5000}
    return ProviderInfo(id="mock", base_url=url, options=options, **{**defaults, **settings})


def asked(
    replies: Iterable[ReplySource],
    *requests: ModelRequest | Callable[[list[ModelEvent]], ModelRequest],
    websockets: bool = True,
    pause_s: float = 0.0,
    **settings: Any,
) -> Outcome:
    """Make the requests, one after the other. A function gets the events of the last response."""

    async def run(server: ResponsesServer) -> list[list[ModelEvent] | ModelError]:
        client = ResponsesProvider().open(table(server.url, **settings), {})
        answers: list[list[ModelEvent] | ModelError] = []
        for request in requests or (model_request(),):
            last = answers[-1] if answers and isinstance(answers[-1], list) else []
            sent = request if isinstance(request, ModelRequest) else request(last)
            try:
                answers.append([event async for event in client.stream(sent)])
            except ModelError as error:
                answers.append(error)
            await asyncio.sleep(pause_s)
        await client.aclose()
        return answers

    with ResponsesServer(replies, websockets=websockets) as server:
        return Outcome(asyncio.run(run(server)), server)


def texts(answer: list[ModelEvent] | ModelError) -> str:
    assert not isinstance(answer, ModelError), answer
    return "".join(event.delta for event in answer if isinstance(event, TextDelta))


def following(*items: Any, **changes: Any) -> Callable[[list[ModelEvent]], ModelRequest]:
    """Return the next request: the first one, the items of its response, and these."""

    def make(events: list[ModelEvent]) -> ModelRequest:
        done = [event.item for event in events if isinstance(event, ItemDone)]
        return model_request("hello", *done, *items, **changes)

    return make


def test_the_events_are_those_of_server_sent_events() -> None:
    everything = reasoning("Hm", deltas=2) + say("hé🦀o", deltas=2) + call("f", a=1) + custom_call("g", "x", deltas=1)
    one, other = asked([everything]), asked([everything], websockets=False)
    assert one.answers == other.answers
    assert one.methods == [("WEBSOCKET", 1)]
    assert other.methods == [("POST", 2)]


def test_the_connection_opens_with_the_headers_of_a_request() -> None:
    outcome = asked([say("a")], model_request(metadata={"x-codex-window-id": "w"}), experimental_bearer_token="secret")
    (upgrade,) = outcome.server.upgrades
    sent = {name: upgrade.headers.get(name) for name in ("authorization", "openai-beta", "thread-id", "accept")}
    assert sent == {
        "authorization": "Bearer secret",
        "openai-beta": "responses_websockets=2026-02-06",
        "thread-id": "thread-1",
        "accept": None,
    }


def test_a_request_that_continues_the_last_one_carries_only_what_is_new() -> None:
    output = FunctionCallOutput("call_1_2", "done")
    outcome = asked(
        [reasoning("Hm", encrypted_content="xyz") + call("f", a=1), say("b"), say("c")],
        model_request("hello"),
        following(output),
        model_request("another"),
    )
    first, second, third = (request.json for request in outcome.server.requests)
    assert first["type"] == "response.create"
    assert "previous_response_id" not in first
    assert second["previous_response_id"] == "resp_1"
    assert second["input"] == [{"type": "function_call_output", "call_id": "call_1_2", "output": "done"}]
    moment = "x-codex-ws-stream-request-start-ms"
    assert moment in first["client_metadata"]
    assert first["client_metadata"]["thread_id"] == "thread-1"
    same = first.keys() - {"input", "client_metadata"}
    assert {key: second[key] for key in same} == {key: first[key] for key in same}
    assert "previous_response_id" not in third
    assert [item["content"][0]["text"] for item in third["input"]] == ["another"]
    assert {number for _, number in outcome.methods} == {1}


@pytest.mark.parametrize(
    "changes", [{"instructions": "Be long."}, {"reasoning_effort": "high"}, {"output_schema": {"type": "object"}}]
)
def test_a_request_with_other_settings_carries_everything(changes: dict[str, Any]) -> None:
    outcome = asked([say("a"), say("b")], model_request("hello"), following(user_message("x"), **changes))
    second = outcome.server.requests[1].json
    assert "previous_response_id" not in second
    assert len(second["input"]) == 3


def test_a_changed_item_makes_the_request_carry_everything() -> None:
    def changed(events: list[ModelEvent]) -> ModelRequest:
        return model_request("hello", Message("assistant", (OutputText("other"),)), user_message("x"))

    second = asked([say("a"), say("b")], model_request("hello"), changed).server.requests[1].json
    assert "previous_response_id" not in second


def test_each_thread_has_a_connection_of_its_own() -> None:
    outcome = asked(
        [say("a"), say("b"), say("c")],
        *(model_request(thread_id=name) for name in ("one", "two", "one")),
    )
    assert [number for _, number in outcome.methods] == [1, 2, 1]


def test_two_requests_of_a_thread_at_once_do_not_share_a_connection() -> None:
    with ResponsesServer([say("a" * 50, deltas=10, delta_delay_s=0.02)] * 2, websockets=True) as server:

        async def run() -> list[str]:
            client = ResponsesProvider().open(table(server.url), {})

            async def one() -> str:
                return texts([event async for event in client.stream(model_request())])

            try:
                return list(await asyncio.gather(one(), one()))
            finally:
                await client.aclose()

        assert asyncio.run(run()) == ["a" * 50] * 2
        assert sorted(request.method for request in server.requests) == ["POST", "WEBSOCKET"]


def test_a_server_without_websockets_is_asked_once() -> None:
    outcome = asked([say("a"), say("b")], model_request(), model_request(thread_id="two"), websockets=False)
    assert [method for method, _ in outcome.methods] == ["POST", "POST"]
    assert [texts(answer) for answer in outcome.answers] == ["a", "b"]
    assert len(outcome.server.upgrades) == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("previous_response_not_found", "Retrying the full request"),
        ("websocket_connection_limit_reached", "60 minutes"),
    ],
)
def test_a_server_that_forgot_the_thread_gets_everything_again(code: str, told: str) -> None:
    gone = say("") + fault(status=400, body={"error": {"code": code, "message": "?"}})
    outcome = asked([say("a"), gone, say("b")], model_request("hello"), following(user_message("x")))
    assert texts(outcome.answers[1]) == "b"
    assert [number for _, number in outcome.methods] == [1, 1, 2]
    assert "previous_response_id" not in outcome.server.requests[2].json
    assert len(outcome.server.requests[2].json["input"]) == 3
    (error,) = asked([gone]).answers
    assert isinstance(error, ModelError)
    assert told in str(error)
    assert error.retryable


def test_an_error_with_a_status_is_that_of_a_response() -> None:
    body = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "pro"}}
    cases = [
        (fault(status=429, body=body), "usage-limit", False, None),
        (fault(status=429, headers={"Retry-After": "2"}, body={"error": {"message": "x"}}), "rate-limit", True, 2.0),
        (fault(status=500, body={"error": {"message": "x"}}), "server-error", True, None),
        (fault(status=400, body={"error": {"message": "x"}}), "bad-request", False, None),
        (fault(status=599, body={"error": {"message": "x"}}), "unexpected-status", True, None),
    ]
    for what, slug, retryable, delay in cases:
        (error,) = asked([say("") + what]).answers
        assert isinstance(error, ModelError)
        assert (error.slug, error.retryable, error.retry_after_s) == (slug, retryable, delay)


CUT = "stream disconnected before completion: WebSocket protocol error: Connection reset without closing handshake"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (fault(after=3), CUT),
        (fault(cut_at=70), CUT),
        (fault(after=3, reset=True), CUT),
        (fault(after=3, hang_s=2.0), "stream disconnected before completion: idle timeout waiting for websocket"),
    ],
)
def test_a_connection_that_breaks_is_a_failure_that_a_retry_can_help(what: Any, told: str) -> None:
    outcome = asked(
        [say("abcdef", deltas=5) + what, say("b")], model_request(), model_request(), stream_idle_timeout_ms=300
    )
    error, answer = outcome.answers
    assert isinstance(error, ModelError)
    assert (str(error), error.retryable, error.starts_over) == (told, True, False)
    assert texts(answer) == "b"
    assert outcome.methods == [("WEBSOCKET", 1), ("WEBSOCKET", 2)]


def test_after_the_retries_the_thread_uses_server_sent_events() -> None:
    broken = say("abcdef", deltas=5) + fault(after=3)
    requests = [model_request()] * 4
    outcome = asked([broken, broken, say("c"), say("d")], *requests)
    first, second, third, fourth = outcome.answers
    assert isinstance(first, ModelError)
    assert isinstance(second, ModelError)
    assert (first.starts_over, second.starts_over) == (False, True)
    assert isinstance(third, list)
    assert third[0] == ModelWarning(f"Falling back from WebSockets to HTTPS transport. {CUT}")
    assert texts(third) == "c"
    assert isinstance(fourth, list)
    assert not any(isinstance(event, ModelWarning) for event in fourth)
    assert [method for method, _ in outcome.methods] == ["WEBSOCKET", "WEBSOCKET", "POST", "POST"]


def test_a_complete_response_counts_the_failures_from_the_beginning() -> None:
    broken = say("abcdef", deltas=5) + fault(after=3)
    outcome = asked([broken, say("a"), broken, say("b")], *[model_request()] * 4)
    assert [method for method, _ in outcome.methods] == ["WEBSOCKET"] * 4


class Once:
    """A server that reads a request, sends these bytes, and holds the connection or closes it."""

    def __init__(self, answer: bytes, *, hold: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer, self._hold = answer, hold
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(60)
                connection.recv(65_536)
                connection.sendall(self._answer)
                if self._hold:
                    connection.recv(1)


@pytest.mark.parametrize(
    ("answer", "hold", "told"),
    [
        (b"", False, "the server closed the connection"),
        (b"", True, "no WebSocket within 0.2 s"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", False, "did not receive a valid HTTP response"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", True, "no WebSocket: "),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
            True,
            "no WebSocket: ",
        ),
    ],
)
def test_a_connection_that_does_not_become_a_websocket_is_told(answer: bytes, hold: bool, told: str) -> None:
    async def run(url: str) -> None:
        client = ResponsesProvider().open(table(url, options={"websocket_connect_timeout_ms": 200}), {})
        try:
            async for _ in client.stream(model_request()):
                pass
        finally:
            await client.aclose()

    with Once(answer, hold=hold) as url, pytest.raises(ModelError, match="Connection failed: ") as caught:
        asyncio.run(run(url))
    assert told in str(caught.value)
    assert caught.value.retryable


def test_unused_connections_expire_and_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_KEPT_S", 0.05)
    monkeypatch.setattr(sockets, "_KEPT", 2)

    async def run(server: ResponsesServer) -> None:
        client = ResponsesProvider().open(table(server.url), {})
        assert isinstance(client, ResponsesClient)
        for name in ("a", "b", "c"):
            assert texts([event async for event in client.stream(model_request(thread_id=name))]) == "x"
        async with asyncio.timeout(60):
            while server._sockets:
                await asyncio.sleep(0.01)
        assert texts([event async for event in client.stream(model_request(thread_id="a"))]) == "x"
        assert "previous_response_id" not in server.requests[-1].json
        await client.aclose()
        await client.aclose()

    with ResponsesServer([say("x")], repeat_last=True, websockets=True) as server:
        asyncio.run(run(server))


def test_what_the_server_sends_unasked_ends_the_connection() -> None:
    """Whatever it is, it belongs to no request, and must not be taken for the next response."""

    late = 'data: {"type":"response.output_text.delta","item_id":"x","delta":"late"}\n\n'
    reply = say("a", delta_delay_s=0.05) + fault(raw_after=late)
    outcome = asked([reply, say("b")], model_request(), model_request(), pause_s=0.3)
    assert texts(outcome.answers[1]) == "b"
    assert [number for _, number in outcome.methods] == [1, 2]


def test_a_turn_goes_on_without_websockets_and_says_so(tmp_path: Path) -> None:
    """One kernel, one thread: tools run once, retries are counted anew, and the user is warned once."""
    ran: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note a text."""
        ran.append(text)
        return "noted"

    broken = say("abcdef", deltas=5) + fault(after=3)
    replies = [call("note", text="1"), broken, broken, broken, call("note", text="2"), say("done")]

    async def run(server: ResponsesServer) -> list[Any]:
        overrides = (
            *('model="m"', 'model_provider="p"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"'),
            f'model_providers.p={{base_url="{server.url}", stream_max_retries=2, supports_websockets=true}}',
        )
        (tmp_path / "home").mkdir()
        environ = {"CODEX_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        config = load_config(cwd=tmp_path, environ=environ, overrides=overrides)
        plugins = [codex_plugin_openai, Offer(tools=[note])]
        kernel = await Kernel.create(config, environ=environ, plugins=plugins, entry_points=())
        events: list[Any] = []
        thread = await kernel.start_thread(ephemeral=True)
        try:
            async for event in thread.stream("go"):
                events.append(event)
        finally:
            await kernel.aclose()
        return events

    with ResponsesServer(replies, websockets=True) as server:
        events = asyncio.run(run(server))
    assert [request.method for request in server.requests] == ["WEBSOCKET"] * 4 + ["POST"] * 2
    assert ran == ["1", "2"]
    retries = [event.message for event in events if isinstance(event, StreamErrorEvent)]
    assert retries == ["Reconnecting... 1/2", "Reconnecting... 2/2"]
    warnings = [event.message for event in events if isinstance(event, WarningEvent)]
    assert sum("Falling back from WebSockets" in text for text in warnings) == 1
    assert type(events[-1]).__name__ == "TurnCompleteEvent"


def test_limits_come_as_an_event() -> None:
    windows = (
        '"primary":{"used_percent":12.5,"window_minutes":300,"reset_at":1795400000},"secondary":{"used_percent":"?"}'
    )
    event = f'{{"type":"codex.rate_limits","plan_type":"plus","rate_limits":{{{windows}}},"credits":{{"has_credits":true}}}}'
    nothing = '{"type":"codex.rate_limits","rate_limits":7}'
    (answer,) = asked([say("a") + fault(raw_before=f"data: {event}\n\ndata: {nothing}\n\n")]).answers
    assert isinstance(answer, list)
    primary = {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1795400000}
    snapshot = {"limit_id": "codex", "primary": primary, "credits": {"has_credits": True}, "plan_type": "plus"}
    assert [event for event in answer if isinstance(event, RateLimits)] == [RateLimits(snapshot)]


def test_a_token_of_a_program_opens_the_connection() -> None:
    outcome = asked([say("a")], options={"auth": {"command": "echo", "args": ["fresh"]}})
    assert [upgrade.headers["authorization"] for upgrade in outcome.server.upgrades] == ["Bearer fresh"]


@pytest.mark.parametrize("how", ["closes", "sends nonsense"])
def test_a_server_that_closes_within_a_response_is_told(how: str) -> None:
    def handle(connection: ServerConnection) -> None:
        connection.recv()
        connection.send('{"type":"response.created","response":{"id":"r"}}')
        if how == "closes":
            connection.close(1011, "overloaded")
            return
        time.sleep(0.05)  # the nonsense comes by itself
        connection.socket.sendall(b"\xff\xff")
        with contextlib.suppress(ConnectionClosed):
            connection.recv(5)

    async def run(url: str) -> None:
        client = ResponsesProvider().open(table(url), {})
        try:
            async for _ in client.stream(model_request()):
                pass
        finally:
            await client.aclose()

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(ModelError, match=r"websocket closed by server before response\.completed"):
                asyncio.run(run(f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"))
        finally:
            server.shutdown()
            thread.join(60)


@pytest.mark.parametrize("rest", [b"\xff\xff", b"\x88\x02\x03\xe8"], ids=["damaged", "closing"])
def test_a_connection_with_a_damaged_or_a_close_frame_after_a_response_is_not_used_again(rest: bytes) -> None:
    end = b'{"type":"response.completed","response":{"id":"r"}}'
    seen: list[ServerConnection] = []

    def handle(connection: ServerConnection) -> None:
        connection.recv()
        seen.append(connection)
        connection.socket.sendall(bytes([0x81, len(end)]) + end + rest)
        with contextlib.suppress(ConnectionClosed):
            connection.recv(5)

    async def run(url: str) -> list[ModelEvent]:
        client = ResponsesProvider().open(table(url), {})
        try:
            return [event for _ in range(2) async for event in client.stream(model_request())]
        finally:
            await client.aclose()

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            events = asyncio.run(run(f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"))
        finally:
            server.shutdown()
            thread.join(60)
    assert [type(event).__name__ for event in events] == ["Completed", "Completed"]
    assert len(seen) == 2


def test_frames_that_come_with_the_upgrade_belong_to_the_response() -> None:
    """The first message begins with the upgrade, and ends after the request."""
    limits = b'{"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":3}}}'
    events = (
        '{"type":"response.output_text.delta","item_id":"m","delta":"a"}',
        '{"type":"response.completed","response":{}}',
    )
    listener = socket.create_server(("127.0.0.1", 0))

    def handle() -> None:
        connection, _ = listener.accept()
        with connection:
            protocol = ServerProtocol()
            protocol.receive_data(connection.recv(65_536))
            (upgrade,) = protocol.events_received()
            assert isinstance(upgrade, Request)
            protocol.send_response(protocol.accept(upgrade))
            protocol.send_text(limits)
            protocol.send_text(events[0].encode()[:9], fin=False)
            connection.sendall(b"".join(protocol.data_to_send()))
            connection.recv(65_536)
            protocol.send_continuation(events[0].encode()[9:], fin=True)
            protocol.send_text(events[1].encode())
            connection.sendall(b"".join(protocol.data_to_send()))
            connection.recv(65_536)

    async def run() -> list[ModelEvent]:
        client = ResponsesProvider().open(table(f"http://127.0.0.1:{listener.getsockname()[1]}/v1"), {})
        try:
            return [event async for event in client.stream(model_request())]
        finally:
            await client.aclose()

    thread = threading.Thread(target=handle)
    thread.start()
    try:
        first, delta, *_ = asyncio.run(run())
    finally:
        thread.join(60)
        listener.close()
    assert (first, delta) == (
        RateLimits({"limit_id": "codex", "primary": {"used_percent": 3.0}}),
        TextDelta("m", "a"),
    )


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        pass


def opened(wire: Wire, *frames: Frame) -> tuple[Connection, WebSocket]:
    """Return an open WebSocket over this transport. The frames came with the upgrade."""
    connection = Connection()
    connection.connection_made(wire)
    protocol, server = ClientProtocol(parse_uri("ws://host/")), ServerProtocol()
    protocol.send_request(protocol.connect())
    server.receive_data(b"".join(protocol.data_to_send()))
    (upgrade,) = server.events_received()
    assert isinstance(upgrade, Request)
    server.send_response(server.accept(upgrade))
    protocol.receive_data(b"".join(server.data_to_send()))
    protocol.events_received()
    return connection, WebSocket(connection, protocol, {}, frames)


def test_frames_that_came_with_the_upgrade_are_returned_once() -> None:
    _, websocket = opened(Wire(), Frame(Opcode.TEXT, b"early"))
    assert [websocket.feed(b"\x89\x01a") for _ in range(2)] == [["early"], []]


def test_pings_of_a_server_that_does_not_read_are_not_answered() -> None:
    wire, ping = Wire(), b"\x89\x01a"
    connection, websocket = opened(wire)
    assert websocket.feed(ping) == []
    answered = len(wire.written)
    assert answered > 0
    connection.pause_writing()
    assert websocket.feed(ping * 1000) == []
    assert len(wire.written) == answered
    connection.resume_writing()
    assert websocket.feed(ping) == []
    assert len(wire.written) == 2 * answered
