"""The connection that is opened before the first request of a thread: who uses it, and that it neither delays nor fails a turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

import codex_plugin_openai
import codex_plugin_replay
from codex_framework import (
    Agent,
    ClientWrapper,
    Interceptor,
    Kernel,
    ModelClient,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ProviderInfo,
    TurnContext,
    tool,
)
from codex_framework.config import load_config
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.protocol.events.turn import StreamErrorEvent
from codex_framework.testing import Offer
from codex_framework.testing.replies import say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_framework.threads.thread import Thread
from codex_plugin_openai.client import ResponsesClient
from codex_plugin_openai.provider import ResponsesProvider

USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


class Preparing:
    """A WebSocket server that answers what is to be generated, and otherwise does as a test says.

    Args:
        prepare: Called with the connection for each message that is not to be generated.

    Attributes:
        messages: The messages, each with the number of its connection.
        connected: Set when a connection is open.
    """

    def __init__(self, prepare: Callable[[ServerConnection], None]) -> None:
        self._prepare = prepare
        self.messages: list[tuple[int, dict[str, Any]]] = []
        self.connections: list[ServerConnection] = []
        self.release = threading.Event()
        self._server = serve(self._handle, "127.0.0.1", 0)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}/v1"

    def __enter__(self) -> Preparing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join(60)

    def _handle(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        number = len(self.connections)
        with contextlib.suppress(ConnectionClosed):
            for text in connection:
                message = json.loads(text)
                self.messages.append((number, message))
                if message.get("generate") is False:
                    self._prepare(connection)
                else:
                    completed(connection, f"r{len(self.messages)}")

    @property
    def generated(self) -> list[dict[str, Any]]:
        return [message for _, message in self.messages if message.get("generate") is not False]


def completed(connection: ServerConnection, response_id: str = "prepared") -> None:
    connection.send(json.dumps({"type": "response.completed", "response": {"id": response_id, "usage": USAGE}}))


def in_thread(
    url: str,
    folder: Path,
    job: Callable[[Thread], Awaitable[Any]],
    *offers: Any,
    settings: tuple[str, ...] = (),
    **table: Any,
) -> Any:
    """Run a job with a new thread of a kernel whose provider has WebSockets."""

    async def run() -> Any:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        provider = {
            "base_url": url,
            "supports_websockets": True,
            "stream_max_retries": 0,
            "request_max_retries": 0,
            **table,
        }
        overrides = (
            *('model="m"', 'model_provider="p"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"'),
            *(f"model_providers.p.{key}={json.dumps(value)}" for key, value in provider.items()),
            *settings,
        )
        environ = {"CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
        config = load_config(cwd=folder, environ=environ, overrides=overrides)
        kernel = await Kernel.create(config, environ=environ, plugins=[codex_plugin_openai, *offers], entry_points=())
        try:
            async with asyncio.timeout(20):
                return await job(await kernel.start_thread(ephemeral=True))
        finally:
            await kernel.aclose()

    return asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@tool
async def note(text: str) -> str:
    """Note a text."""
    return text


def test_an_idle_thread_lets_the_server_prepare_and_the_first_request_refers_to_it(tmp_path: Path) -> None:
    async def job(thread: Thread) -> Any:
        await until(lambda: server.messages)
        await asyncio.sleep(0.02)
        result = await thread.run("hello")
        return result.error, thread.total_usage.total_tokens

    with Preparing(completed) as server:
        outcome = in_thread(server.url, tmp_path, job, Offer(tools=[note]), settings=("framework.limits.requests=1",))
    assert outcome == (None, 7)
    (number, prepared), (same, first) = server.messages
    assert (number, same) == (1, 1)
    assert prepared["input"] == []
    assert first["previous_response_id"] == "prepared"
    assert first["input"][-1]["content"][0]["text"] == "hello"
    alike = prepared.keys() - {"generate", "input", "client_metadata"}
    assert {"tools", "instructions", "model"} <= alike
    assert {key: prepared[key] for key in alike} == {key: first[key] for key in alike}
    metadata = json.loads(prepared["client_metadata"]["x-codex-turn-metadata"])
    assert (metadata["request_kind"], metadata["turn_id"], "turn_trigger" in metadata) == ("prewarm", "", False)


def test_a_turn_that_begins_at_once_takes_the_connection_over(tmp_path: Path) -> None:
    with Preparing(completed) as server:
        in_thread(server.url, tmp_path, lambda thread: thread.run("hello"))
    ((number, first),) = server.messages
    assert (number, "previous_response_id" in first, len(server.connections)) == (1, False, 1)


def nothing(connection: ServerConnection) -> None:
    """Prepare forever."""


def closing(connection: ServerConnection) -> None:
    connection.close(1011, "busy")


def refusing(connection: ServerConnection) -> None:
    connection.send('{"type":"error","status":400,"error":{"message":"unknown parameter: generate"}}')


def answering(connection: ServerConnection) -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi!"}]}
    connection.send(json.dumps({"type": "response.output_item.done", "item": item}))
    completed(connection)


@pytest.mark.parametrize("prepare", [nothing, closing, refusing, answering])
def test_a_server_that_does_not_prepare_costs_nothing(
    tmp_path: Path, prepare: Callable[[ServerConnection], None]
) -> None:
    async def job(thread: Thread) -> Any:
        await until(lambda: server.messages)
        await asyncio.sleep(0.02)
        events = [event async for event in thread.stream("hello")]
        assert not any(isinstance(event, StreamErrorEvent) for event in events)
        await until(lambda: server.connections[0].state.name == "CLOSED")
        return events[-1]

    with Preparing(prepare) as server:
        end = in_thread(server.url, tmp_path, job)
    assert type(end).__name__ == "TurnCompleteEvent"
    (first,) = server.generated
    assert "previous_response_id" not in first
    assert [number for number, _ in server.messages] == [1, 2]


def test_a_prepared_connection_that_broke_unnoticed_does_not_fail_the_turn(tmp_path: Path) -> None:
    """The server closes it on the first request, and there are no retries."""

    def handle(connection: ServerConnection) -> None:
        seen.append(connection)
        for text in connection:
            if json.loads(text).get("generate") is False:
                completed(connection)
            elif len(seen) == 1:
                connection.socket.close()
                return
            else:
                completed(connection, "r")

    async def job(thread: Thread) -> Any:
        await until(lambda: seen)
        await asyncio.sleep(0.05)
        return (await thread.run("hello")).error

    seen: list[ServerConnection] = []
    with serve(handle, "127.0.0.1", 0) as server:
        accepting = threading.Thread(target=server.serve_forever)
        accepting.start()
        try:
            url = f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"
            assert in_thread(url, tmp_path, job) is None
        finally:
            server.shutdown()
            accepting.join(60)
    assert len(seen) == 2


@pytest.mark.parametrize("at_once", [True, False])
def test_a_server_without_websockets_is_asked_for_one_once(tmp_path: Path, at_once: bool) -> None:
    async def job(thread: Thread) -> Any:
        if not at_once:
            await until(lambda: server.upgrades)
            await asyncio.sleep(0.02)
        return (await thread.run("hello")).error

    with ResponsesServer([say("a")], websockets=False) as server:
        assert in_thread(server.url, tmp_path, job) is None
    assert ([request.method for request in server.requests], len(server.upgrades)) == (["POST"], 1)


def test_a_thread_that_ends_leaves_no_connection(tmp_path: Path) -> None:
    async def job(thread: Thread) -> None:
        await until(lambda: server.messages)
        await thread.shutdown()

    with Preparing(nothing) as server:
        in_thread(server.url, tmp_path, job)
        for connection in server.connections:
            connection.recv_events_thread.join(60)
            assert connection.state.name == "CLOSED"


def test_a_connection_counts_as_prepared_until_its_first_response_has_begun(tmp_path: Path) -> None:
    """After that, a break is one of the response: it is not asked for again on another WebSocket, because there are no retries."""

    def handle(connection: ServerConnection) -> None:
        seen.append(connection)
        for text in connection:
            message = json.loads(text)
            if message.get("generate") is False:
                completed(connection)
            elif "begin" in str(message["input"][-1]):
                connection.send('{"type":"response.output_text.delta","item_id":"m","delta":"a"}')
                time.sleep(0.02)
                connection.socket.close()
                return
            elif "break" in str(message["input"][-1]):
                connection.socket.close()
                return
            else:
                completed(connection, "r")

    async def job(thread: Thread, *prompts: str) -> list[str | None]:
        await until(lambda: seen)
        await asyncio.sleep(0.05)
        return [(await thread.run(prompt)).error for prompt in prompts]

    seen: list[ServerConnection] = []
    with serve(handle, "127.0.0.1", 0) as server:
        accepting = threading.Thread(target=server.serve_forever)
        accepting.start()
        try:
            url = f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"
            (begun,) = in_thread(url, tmp_path, lambda thread: job(thread, "begin"))
            opened = [len(seen)]
            seen.clear()
            first, second = in_thread(url, tmp_path, lambda thread: job(thread, "hello", "break"))
            opened.append(len(seen))
        finally:
            server.shutdown()
            accepting.join(60)
    assert (opened, first) == ([1, 1], None)
    assert begun is not None
    assert second is not None


def test_a_child_opens_its_connection_with_its_first_request(tmp_path: Path) -> None:
    async def job(thread: Thread) -> int:
        await until(lambda: server.messages)
        context = thread.conversation.context("openai")
        await context.spawn(Agent(name="child", description="", instructions=""))
        await asyncio.sleep(0.05)
        return len(server.connections)

    with Preparing(completed) as server:
        assert in_thread(server.url, tmp_path, job) == 1


class Wrapping(Interceptor):
    name = "wrapping"

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:
        return Wrapped(client)


class Wrapped:
    def __init__(self, client: ModelClient) -> None:
        self._client = client

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return self._client.stream(request)

    async def aclose(self) -> None:
        await self._client.aclose()


class Brief(ClientWrapper):
    def changed(self, request: ModelRequest) -> ModelRequest:
        return request.evolve(instructions="Be brief.")


class Shortening(Interceptor):
    name = "shortening"

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:
        return Brief(client)


def test_a_client_that_another_plugin_wraps_prepares_what_the_wrapper_sends(tmp_path: Path) -> None:
    async def job(thread: Thread) -> Any:
        await until(lambda: server.messages)
        await asyncio.sleep(0.02)
        return (await thread.run("hello")).error

    path = tmp_path / "cassette.jsonl"
    plugins = Offer(interceptors=[Shortening()]), codex_plugin_replay
    with Preparing(completed) as server:
        assert in_thread(server.url, tmp_path, job, *plugins, record=str(path)) is None
    (_, prepared), (_, first) = server.messages
    assert (prepared["instructions"], first["instructions"]) == ("Be brief.", "Be brief.")
    assert first["previous_response_id"] == "prepared"
    assert len([line for line in path.read_text().splitlines() if '"request"' in line]) == 1, (
        "the request is recorded once"
    )


@pytest.mark.parametrize("why", ["wrapped", "no key"])
def test_where_nothing_can_be_prepared_nothing_is_told(tmp_path: Path, why: str) -> None:
    async def job(thread: Thread) -> tuple[int, list[str], str | None]:
        await asyncio.sleep(0.05)
        before = len(server.connections)
        result = await thread.run("hello")
        return before, [event.message for event in result.events if isinstance(event, WarningEvent)], result.error

    table = {"env_key": "NO_SUCH_KEY"} if why == "no key" else {}
    offers = [Offer(interceptors=[Wrapping()])] if why == "wrapped" else []
    with Preparing(completed) as server:
        before, warnings, error = in_thread(server.url, tmp_path, job, *offers, **table)
    assert before == 0
    assert [text for text in warnings if "prewarm" in text] == []
    assert ("NO_SUCH_KEY" in str(error)) is (why == "no key")


def client_at(url: str) -> ResponsesClient:
    options = {"supports_websockets": True}
    client = ResponsesProvider().open(ProviderInfo(id="p", base_url=url, options=options, request_max_retries=0), {})
    assert isinstance(client, ResponsesClient)
    return client


async def no_draft() -> None:
    return None


async def alone() -> None:
    """Wait until no other task is left."""
    async with asyncio.timeout(60):
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("lite", [False, True])
def test_the_first_request_gets_the_headers_of_the_prepared_connection(lite: bool) -> None:
    def limited(connection: ServerConnection, request: Request, response: Response) -> None:
        response.headers["x-codex-primary-used-percent"] = "7"
        upgrades.append(request)

    def handle(connection: ServerConnection) -> None:
        for number, _ in enumerate(connection):
            completed(connection, f"r{number}")

    async def run(url: str) -> list[list[str]]:
        client, request = client_at(url), model_request(model=ModelInfo(slug="m", lite=lite))
        await client.prepare(request, no_draft)
        await client.prepare(request, no_draft)
        answers = [[type(event).__name__ async for event in client.stream(request)] for _ in range(2)]
        await client.aclose()
        return answers

    upgrades: list[Request] = []
    with serve(handle, "127.0.0.1", 0, process_response=limited) as server:
        accepting = threading.Thread(target=server.serve_forever)
        accepting.start()
        try:
            answers = asyncio.run(run(f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"))
        finally:
            server.shutdown()
            accepting.join(60)
    assert answers == [["RateLimits", "Completed"], ["Completed"]]
    assert len(upgrades) == 1


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_what_is_being_opened_ends_with_its_thread_or_client(how: str) -> None:
    async def run(url: str) -> None:
        client = client_at(url)
        preparing = asyncio.ensure_future(client.prepare(model_request(), no_draft))
        await asyncio.sleep(0.02)
        if how == "cancelled":
            preparing.cancel()
            await alone()
        await client.aclose()
        others = asyncio.all_tasks() - {asyncio.current_task(), preparing}
        assert not others
        await asyncio.wait([preparing])

    with socket.create_server(("127.0.0.1", 0)) as listener:  # which never answers
        asyncio.run(run(f"http://127.0.0.1:{listener.getsockname()[1]}/v1"))


@pytest.mark.parametrize("how", ["closed", "cancelled", "taken over and cancelled"])
def test_a_connection_that_opens_at_the_last_moment_is_closed(how: str) -> None:
    def handle(connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            connection.recv()
        ended.set()

    async def run(url: str) -> None:
        client = client_at(url)
        assert client._sockets is not None
        task = asyncio.ensure_future(client.prepare(model_request(), no_draft))
        await asyncio.sleep(0)
        (session,) = client._sockets._sessions.values()
        assert session.opening is not None
        # This runs after the connection is open, and before the task that waits for it goes on.
        if how == "closed":
            session.opening.add_done_callback(lambda _: session.close())
        elif how == "cancelled":
            session.opening.add_done_callback(lambda _: task.cancel())
        else:
            request = asyncio.ensure_future(anext(client.stream(model_request())))
            session.opening.add_done_callback(lambda _: request.cancel())
        await asyncio.wait([task])
        async with asyncio.timeout(2):
            await until(ended.is_set)
        await client.aclose()

    ended = threading.Event()
    with serve(handle, "127.0.0.1", 0) as server:
        accepting = threading.Thread(target=server.serve_forever)
        accepting.start()
        try:
            asyncio.run(run(f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"))
        finally:
            server.shutdown()
            accepting.join(60)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_request_that_does_not_wait_for_a_preparation_leaves_no_other_connection(is_cancelled: bool) -> None:
    def handle(connection: ServerConnection) -> None:
        connections.append(connection)
        role = "prepared"
        with contextlib.suppress(ConnectionClosed):
            for text in connection:
                if json.loads(text).get("generate") is not False:
                    role = "asked"
                    completed(connection)
        ended.append(role)

    async def draft() -> ModelRequest:
        return model_request()

    async def run(url: str) -> None:
        client = client_at(url)
        await client.prepare(model_request(), draft)
        request = asyncio.ensure_future(anext(client.stream(model_request())))
        if is_cancelled:  # when the other connection is open, but before the request goes on
            opening: list[asyncio.Task[Any]] = []
            while not opening:
                await asyncio.sleep(0)
                opening = [task for task in asyncio.all_tasks() if "Sockets._open" in repr(task.get_coro())]
            opening[0].add_done_callback(lambda _: request.cancel())
        await asyncio.wait([request])
        async with asyncio.timeout(60):
            await until(lambda: "prepared" in ended)
            if is_cancelled:
                await until(lambda: len(ended) == len(connections) == 2)
        await client.aclose()

    connections: list[ServerConnection] = []
    ended: list[str] = []
    with serve(handle, "127.0.0.1", 0) as server:
        accepting = threading.Thread(target=server.serve_forever)
        accepting.start()
        try:
            asyncio.run(run(f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"))
        finally:
            server.shutdown()
            accepting.join(60)


def test_no_other_thread_asks_a_server_without_websockets_for_one() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        asked.append(request)
        return connection.respond(404, "No.")

    async def run(url: str) -> None:
        client = client_at(url)
        for name in ("a", "b"):
            await client.prepare(model_request().evolve(thread_id=name), no_draft)
        await client.aclose()

    asked: list[Request] = []
    with serve(lambda _: None, "127.0.0.1", 0, process_request=refuse) as server:
        accepting = threading.Thread(target=server.serve_forever)
        accepting.start()
        try:
            asyncio.run(run(f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1"))
        finally:
            server.shutdown()
            accepting.join(60)
    assert len(asked) == 1


class Changing(Interceptor):
    name = "changing"

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:
        return request.evolve(instructions="Others.")


def test_what_an_interceptor_would_change_is_not_sent_in_advance(tmp_path: Path) -> None:
    async def job(thread: Thread) -> Any:
        await until(lambda: server.connections)
        await asyncio.sleep(0.05)
        return (await thread.run("hello")).error

    with Preparing(completed) as server:
        assert in_thread(server.url, tmp_path, job, Offer(interceptors=[Changing()])) is None
    ((number, first),) = server.messages
    assert (number, first["instructions"]) == (1, "Others.")


def test_a_provider_without_websockets_has_no_part_in_it(tmp_path: Path) -> None:
    class Plugin:
        config: dict[str, Any]
        environ: ClassVar[dict[str, str]] = {}
        codex_home = tmp_path

    tables = {"p": {"base_url": "http://host"}, "q": 7}
    found = []
    for config in (
        {"model_provider": "p", "model_providers": tables},
        {"model_providers": tables, "features": {"responses_websockets": False}},
        {"model_providers": tables},
    ):
        plugin = Plugin()
        plugin.config = config
        found.append([each.name for each in codex_plugin_openai.codex_components(plugin)])  # type: ignore[arg-type]
    assert found == [[], [], ["responses_prewarm"]]
