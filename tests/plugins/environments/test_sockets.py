"""WebSockets to exec-servers that refuse, redirect, say nothing or send what is no message."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from codex_plugin_environments import channels
from codex_plugin_environments.configuration import Place
from codex_plugin_environments.environment import RemoteEnvironment

CANARY = "SECRET-canary-4711"
INFO = {"shell": {"path": "/bin/sh"}}


def connected(talk: Callable[[ServerConnection], Any], respond: Any = None, **changes: Any) -> tuple[Any, list[Any]]:
    """Connect to a server. Return the shell or the error, and the headers of requests."""
    headers: list[Any] = []

    def process(connection: ServerConnection, request: Any) -> Any:
        headers.append(request.headers.get("Authorization"))
        return None if respond is None else respond(connection, request)

    async def main() -> Any:
        async with serve(talk, "127.0.0.1", 0, process_request=process, max_size=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            url = f"ws://127.0.0.1:{port}/x?{CANARY}"
            environment = RemoteEnvironment(Place(id="box", url=url, token=CANARY, **changes), {})
            try:
                async with asyncio.timeout(20):
                    return (await environment.connect()).shell
            except ConnectionError as error:
                return f"{error} {environment.fault}"
            finally:
                await environment.aclose()

    found = asyncio.run(main())
    assert CANARY not in found
    return found, headers


async def answers(socket: ServerConnection) -> None:
    async for text in socket:
        message = json.loads(text)
        if message.get("method") == "initialize":
            await socket.send(json.dumps({"id": message["id"], "result": {"environmentInfo": INFO}}).encode())


async def closes(socket: ServerConnection) -> None:
    await socket.recv()
    await socket.close(4000, f"no {CANARY}")


async def floods(socket: ServerConnection) -> None:
    await socket.send("x" * (1 << 17))
    await socket.wait_closed()


async def babbles(socket: ServerConnection) -> None:
    await socket.send(b"\xff\xff")
    await socket.wait_closed()


async def waits(socket: ServerConnection) -> None:
    await socket.wait_closed()


def test_the_token_is_sent_and_binary_messages_are_taken_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        found, headers = connected(answers)
    assert (found, headers) == ("/bin/sh", [f"Bearer {CANARY}"])
    assert not [record for record in caplog.records if record.name == "websockets.client"]


@pytest.mark.parametrize(
    ("talk", "text"),
    [
        (closes, "has closed the connection: received 4000 (private use) no (hidden)"),
        (floods, "has closed the connection: sent 1009 (message too big)"),
        (babbles, "the server sent something that is not JSON: b'"),
        (waits, "there was no answer to initialize within 0.2 s"),
    ],
)
def test_a_server_that_does_not_keep_to_the_protocol(talk: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_LONGEST", 1 << 16)
    found, _ = connected(talk, initialize_timeout_s=0.2 if talk is waits else 10.0)
    assert text in found


def test_a_refusal_is_told() -> None:
    found, _ = connected(answers, lambda socket, _: socket.respond(HTTPStatus.UNAUTHORIZED, CANARY))
    assert "cannot be reached: server rejected WebSocket connection: HTTP 401" in found


def test_no_redirect_is_followed() -> None:
    def respond(socket: ServerConnection, request: Any) -> Any:
        if request.path == "/other":
            return None
        response = socket.respond(HTTPStatus.TEMPORARY_REDIRECT, "")
        response.headers["Location"] = "/other"
        return response

    found, headers = connected(answers, respond)
    assert "server rejected WebSocket connection: HTTP 307" in found
    assert len(headers) == 1


def test_a_server_that_never_answers_is_given_up() -> None:
    async def main() -> str:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while await reader.read(4096):
                    pass
            writer.transport.abort()
            ended.set()

        ended = asyncio.Event()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        environment = RemoteEnvironment(Place(id="box", url=f"ws://127.0.0.1:{port}", connect_timeout_s=0.1), {})
        with pytest.raises(ConnectionError) as caught:
            await environment.connect()
        await environment.aclose()
        server.close()
        await ended.wait()
        return str(caught.value)

    assert "did not answer within 0.1 s" in asyncio.run(main())
