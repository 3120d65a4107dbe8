"""WebSockets of the built-in provider: they are used when they are open, nobody waits for them, and their failures are not shown."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codex_plugin_openai
from codex_framework import (
    ItemDone,
    Kernel,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ProviderInfo,
    TextDelta,
    tool,
)
from codex_framework.config import load_config
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.testing import Offer, call, fault, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_plugin_openai import prewarming, sockets
from codex_plugin_openai.client import ResponsesClient
from codex_plugin_openai.provider import ResponsesProvider
from codex_plugin_openai.socket_choice import socket_choice

ENV = {"OPENAI_API_KEY": "key"}


def openai(url: str, **keys: Any) -> ProviderInfo:
    return ResponsesProvider.builtin["openai"].evolve(base_url=url, request_max_retries=0, **keys)


def client_at(url: str, **keys: Any) -> ResponsesClient:
    client = ResponsesProvider().open(openai(url, **keys), ENV)
    assert isinstance(client, ResponsesClient)
    return client


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


def is_open(client: ResponsesClient, thread_id: str = "thread-1") -> bool:
    opened = client._sockets
    return opened is not None and opened.may_begin(thread_id)


def is_settled(client: ResponsesClient) -> bool:
    """Return whether no connection is being opened."""
    opened = client._sockets
    return opened is not None and not any(session.opening for session in opened._sessions.values())


async def heard(client: ResponsesClient, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in client.stream(request)]


def after(events: list[ModelEvent], request: ModelRequest) -> ModelRequest:
    """Return the next request: with the call of the response, and its output."""
    (item,) = (event.item for event in events if isinstance(event, ItemDone))
    return model_request(*request.prompt.items, item, FunctionCallOutput(item.call_id, "x"), model=request.model)


def methods(server: ResponsesServer) -> list[str]:
    return [request.method for request in server.requests]


def test_a_websocket_opens_beside_a_call_and_later_requests_carry_what_is_new() -> None:
    async def run(server: ResponsesServer) -> None:
        client, request = client_at(server.url), model_request("hello")
        for number in range(3):
            events = await heard(client, request)
            if number == 0:
                await until(lambda: is_open(client))
            request = after(events, request)
        await heard(client, request)
        await client.aclose()

    with ResponsesServer([call("f", a=1), call("f", a=2), call("f", a=3), say("done")], websockets=True) as server:
        asyncio.run(run(server))
    assert methods(server) == ["POST", "WEBSOCKET", "WEBSOCKET", "WEBSOCKET"]
    assert [len(request.json["input"]) for request in server.requests] == [1, 3, 1, 1]
    assert [request.json.get("previous_response_id") for request in server.requests] == [None, None, "resp_2", "resp_3"]
    assert len(server.upgrades) == 1
    assert server.upgrades[0].headers["openai-beta"].startswith("responses_websockets=")


def test_a_conversation_without_calls_opens_none() -> None:
    async def run(server: ResponsesServer) -> None:
        client = client_at(server.url)
        for _ in range(2):
            await heard(client, model_request("hello"))
        await asyncio.sleep(0.02)
        await client.aclose()

    with ResponsesServer([say("a"), say("b")], websockets=True) as server:
        asyncio.run(run(server))
    assert (methods(server), server.upgrades) == (["POST", "POST"], [])


class Refusing(ResponsesServer):
    """A server whose answer to the request for a WebSocket is a status."""

    def __init__(self, status: int, replies: Any) -> None:
        super().__init__(replies)
        self.status = status

    def _upgrade(self, connection: Any, request: Any, wire: Any) -> bool:
        self.upgrades.append(request)
        connection.sendall(b"HTTP/1.1 %d No\r\ncontent-length: 2\r\n\r\nno" % self.status)
        return True


@pytest.mark.parametrize(
    ("status", "asked"),
    [(400, 1), (401, 1), (403, 1), (404, 1), (405, 1), (426, 1), (200, 1), (302, 1), (503, 3), (429, 3)],
)
def test_a_server_without_websockets_is_asked_once_and_a_failing_one_three_times(status: int, asked: int) -> None:
    async def run(server: Refusing) -> None:
        client = client_at(server.url)
        for name in ["a"] * 5 + (["b"] if asked == 1 else []):
            await heard(client, model_request(thread_id=name))
            await until(lambda: is_settled(client))
        await client.aclose()

    with Refusing(status, [call("f")] * 6) as server:
        asyncio.run(run(server))
    assert len(server.upgrades) == asked
    assert set(methods(server)) == {"POST"}


def test_no_request_waits_for_a_websocket_that_does_not_open() -> None:
    """The server holds the connection for a WebSocket and says nothing."""

    async def run(server: Silent) -> int:
        client = client_at(server.url)
        for _ in range(3):
            await heard(client, model_request())
        count = len(server.upgrades)
        await client.aclose()
        return count

    class Silent(ResponsesServer):
        def _upgrade(self, connection: Any, request: Any, wire: Any) -> bool:
            self.upgrades.append(request)
            self._stopping.wait(20)
            return False

    with Silent([call("f")] * 3) as server:
        assert asyncio.run(run(server)) <= 1
    assert methods(server) == ["POST"] * 3


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("place", [0, 2])
def test_a_response_that_breaks_off_is_asked_for_again_at_once_and_nothing_is_shown(
    tmp_path: Path, retries: int, reset: bool, place: int
) -> None:
    @tool
    async def note(text: str) -> str:
        """Note a text."""
        await until(lambda: is_open(client[0], thread_id[0]))
        ran.append(text)
        return text

    broken = say("abc", deltas=4) + fault(after=place, reset=reset)
    ran: list[str] = []
    client: list[ResponsesClient] = []
    thread_id: list[str] = []

    async def run(server: ResponsesServer) -> Any:
        async with await kernel_at(server.url, tmp_path, Offer(tools=[note]), retries=retries) as kernel:
            thread = await kernel.start_thread(ephemeral=True)
            opened = kernel._host.models.client(thread.settings.provider)
            assert isinstance(opened, ResponsesClient)
            client.append(opened)
            thread_id.append(thread.id)
            return await thread.run("go")

    with ResponsesServer([call("note", text="x"), broken, say("done")], websockets=True) as server:
        result = asyncio.run(run(server))
    assert (result.error, result.final_message, ran) == (None, "done", ["x"])
    assert methods(server) == ["POST", "WEBSOCKET", "POST"]
    assert [event.type for event in result.events if event.type in ("stream_error", "warning", "error")] == []


async def kernel_at(url: str, folder: Path, *plugins: Any, retries: int = 0, settings: tuple[str, ...] = ()) -> Kernel:
    (folder / "home").mkdir(exist_ok=True)
    environ = {"CODEX_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", **ENV}
    overrides = (
        *('model="gpt-5.5"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"', "web_search='disabled'"),
        f'openai_base_url="{url}"',
        *settings,
    )
    config = load_config(cwd=folder, environ=environ, overrides=overrides)
    return await Kernel.create(config, environ=environ, plugins=[codex_plugin_openai, *plugins], entry_points=())


def test_a_websocket_that_says_nothing_costs_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something on the way passes the upgrade on, but no message."""
    monkeypatch.setattr(sockets, "_FIRST_EVENT_S", 0.05)

    async def run(server: ResponsesServer) -> None:
        client = client_at(server.url)
        async with asyncio.timeout(20):  # the server is silent for longer
            for _ in range(8):
                assert [event for event in await heard(client, model_request()) if isinstance(event, ItemDone)]
                await until(lambda: is_settled(client))
        await client.aclose()

    silent = say("never") + fault(hang_s=30)

    def answer(request: Any) -> Any:
        return silent if request.method == "WEBSOCKET" else call("f")

    with ResponsesServer([answer], repeat_last=True, websockets=True) as server:
        asyncio.run(run(server))
    asked = methods(server)
    assert asked.count("POST") == 8
    assert asked.count("WEBSOCKET") == 3, "then the thread opens no other"


def test_after_its_first_event_a_response_may_pause_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_FIRST_EVENT_S", 0.3)

    async def run(server: ResponsesServer) -> list[ModelEvent]:
        client, request = client_at(server.url), model_request("hello")
        events = await heard(client, request)
        await until(lambda: is_open(client))
        events = await heard(client, after(events, request))
        await client.aclose()
        return events

    with ResponsesServer([call("f"), say("abc", delta_delay_s=0.5)], websockets=True) as server:
        events = asyncio.run(run(server))
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["abc"]
    assert methods(server) == ["POST", "WEBSOCKET"]


def test_after_three_responses_that_break_off_a_thread_uses_no_other_websocket() -> None:
    async def run(server: ResponsesServer) -> int:
        client, broken = client_at(server.url), 0
        for _ in range(8):
            try:
                await heard(client, model_request())
            except ModelError as error:
                assert error.starts_over
                broken += 1
            await until(lambda: is_settled(client))
        await client.aclose()
        return broken

    def answer(request: Any) -> Any:
        return say("abc", deltas=4) + fault(after=2) if request.method == "WEBSOCKET" else call("f")

    with ResponsesServer([answer], repeat_last=True, websockets=True) as server:
        assert asyncio.run(run(server)) == 3
    assert methods(server) == ["POST", "WEBSOCKET"] * 3 + ["POST"] * 2
    assert len(server.upgrades) == 3


def test_a_connection_that_breaks_before_the_answer_to_a_later_request_costs_nothing() -> None:
    async def run(server: ResponsesServer) -> list[ModelEvent]:
        client, request = client_at(server.url), model_request("hello")
        events = await heard(client, request)
        await until(lambda: is_open(client))
        for _ in range(2):
            request = after(events, request)
            events = await heard(client, request)
        await client.aclose()
        return events

    replies = [call("f", a=1), call("f", a=2), say("never") + fault(after=0), say("done")]
    with ResponsesServer(replies, websockets=True) as server:
        events = asyncio.run(run(server))
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["done"]
    assert methods(server) == ["POST", "WEBSOCKET", "WEBSOCKET", "POST"]
    assert server.requests[2].connection == server.requests[1].connection
    assert [len(server.requests[number].json["input"]) for number in (2, 3)] == [1, 5]


def test_an_unused_connection_is_closed_before_something_on_the_way_forgets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_KEPT_TRIED_S", 0.02)

    async def run(server: ResponsesServer) -> None:
        client, request = client_at(server.url), model_request("hello")
        events = await heard(client, request)
        await until(lambda: server.upgrades and is_settled(client) and not is_open(client))
        await heard(client, after(events, request))
        await client.aclose()

    with ResponsesServer([call("f"), say("done")], websockets=True) as server:
        asyncio.run(run(server))
    assert (methods(server), len(server.upgrades)) == (["POST", "POST"], 1)


def test_what_is_used_depends_on_the_provider_and_the_feature() -> None:
    own = ProviderInfo(id="mine", name="OpenAI", base_url="https://api.openai.com/v1")
    builtin = ResponsesProvider.builtin["openai"]
    off = {"features": {"responses_websockets": False}}
    assert [
        socket_choice(builtin, {}),
        socket_choice(builtin, off),
        socket_choice(builtin, {"features": 7}),
        socket_choice(own, {}),
        socket_choice(own.evolve(options={"supports_websockets": True}), off),
        socket_choice(own.evolve(options={"supports_websockets": False}), {}),
        socket_choice(ResponsesProvider.builtin["ollama"], {}),
    ] == ["tried", None, "tried", None, "required", None, None]


def test_without_the_feature_no_websocket_is_asked_for() -> None:
    async def run(server: ResponsesServer) -> None:
        client = ResponsesProvider({"features": {"responses_websockets": False}}).open(openai(server.url), ENV)
        for _ in range(2):
            async for _event in client.stream(model_request()):
                pass
        await client.aclose()

    with ResponsesServer([call("f")] * 2, websockets=True) as server:
        asyncio.run(run(server))
    assert (methods(server), server.upgrades) == (["POST", "POST"], [])


@pytest.mark.parametrize("idle", [True, False])
def test_an_idle_thread_is_prepared_and_a_turn_that_begins_at_once_is_not_delayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, idle: bool
) -> None:
    monkeypatch.setattr(prewarming, "IDLE_S", 0.01)

    async def run(server: ResponsesServer) -> str | None:
        async with await kernel_at(server.url, tmp_path) as kernel:
            thread = await kernel.start_thread(ephemeral=True)
            if idle:
                client = kernel._host.models.client(thread.settings.provider)
                assert isinstance(client, ResponsesClient)
                await until(lambda: is_open(client, thread.id))
            return (await thread.run("hello")).error

    with ResponsesServer([say("done", delta_delay_s=0.05)], websockets=True) as server:
        assert asyncio.run(run(server)) is None
    (request,) = server.requests
    if idle:
        assert (request.method, request.json.get("previous_response_id")) == ("WEBSOCKET", "prepared_1_1")
    else:
        assert (request.method, server.upgrades) == ("POST", [])


def test_requests_of_the_other_form_get_another_connection() -> None:
    async def run(server: ResponsesServer) -> None:
        client, request = client_at(server.url), model_request("hello")
        events = await heard(client, request)
        await until(lambda: is_open(client))
        lite = after(events, request).evolve(model=ModelInfo(slug="m", lite=True))
        await heard(client, lite)
        await until(lambda: is_open(client))
        await heard(client, lite)
        await client.aclose()

    with ResponsesServer([call("f")] * 3, websockets=True) as server:
        asyncio.run(run(server))
    assert methods(server) == ["POST", "POST", "WEBSOCKET"]
    header = "x-openai-internal-codex-responses-lite"
    assert [upgrade.headers.get(header) for upgrade in server.upgrades] == [None, "true"]


def test_a_client_that_closes_while_it_opens_a_connection_leaves_nothing() -> None:
    async def run(url: str) -> None:
        client = client_at(url)
        client._opened_sockets().expect("t", {})  # type: ignore[union-attr]
        await asyncio.sleep(0.02)
        await client.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with socket.create_server(("127.0.0.1", 0)) as listener:  # which never answers
        asyncio.run(run(f"http://127.0.0.1:{listener.getsockname()[1]}/v1"))


def test_threads_that_have_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_SESSIONS", 4)

    async def run(server: ResponsesServer) -> tuple[int, set[str]]:
        client = client_at(server.url)
        for number in range(12):
            await heard(client, model_request(thread_id=f"t{number}"))
            await until(lambda: is_settled(client))
        assert client._sockets is not None
        left = len(client._sockets._sessions)
        await client.aclose()
        return left, {request.method for request in server.requests}

    with Refusing(503, [call("f")] * 12) as server:
        left, asked = asyncio.run(run(server))
    assert left <= 4
    assert asked == {"POST"}
