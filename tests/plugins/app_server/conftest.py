"""A server in this process with a model on loopback, and clients that see and check every message."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ResponsesServer
from codex_plugin_app_server.kernels import Kernels
from codex_plugin_app_server.methods import METHODS
from codex_plugin_app_server.requests import SERVER_REQUESTS
from codex_plugin_app_server.schema import protocol
from codex_plugin_app_server.server import Server

LIMIT_S = float(os.environ.get("APP_SERVER_LIMIT_S", "60"))


class Home:
    """A home, a workspace, and a scripted model."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self.work = folder / "work"
        self.path.mkdir()
        self.work.mkdir()
        self.models: list[ResponsesServer] = []
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("CODEX_", "OPENAI_"))}
        self.env = {**inherited, "CODEX_HOME": str(self.path), "HOME": str(folder)}

    def serve(self, *replies: Any, more: str = "", **options: Any) -> ResponsesServer:
        model = ResponsesServer(replies, **options).start()
        self.models.append(model)
        tries = "request_max_retries = 0\nstream_max_retries = 0"
        (self.path / "config.toml").write_text(
            f'model = "gpt-5.5"\nmodel_provider = "here"\n{more}\n'
            f'[model_providers.here]\nname = "here"\nbase_url = "{model.url}"\n{tries}\n'
        )
        return model


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    for model in made.models:
        model.stop()


@pytest.fixture(scope="session")
def make_home() -> Callable[[Path], Home]:
    """The class, for tests that share a server."""
    return Home


@cache
def _validator(type_name: str, method: str | None = None) -> Any:
    """Return the validator of a type. With ``method``, it tries only the alternative that has it, because 87 take long."""
    from jsonschema import Draft7Validator

    definitions = protocol().definitions
    schema = definitions[type_name]
    if method is not None:
        (only,) = [each for each in schema["oneOf"] if method in each["properties"]["method"]["enum"]]
        schema = {**schema, "oneOf": [only]}
    return Draft7Validator({**schema, "definitions": definitions})


def check_message(message: dict[str, Any], methods: dict[Any, str]) -> None:
    """Check a message of the server against the schema. ``methods`` has the method of each request by its id."""
    if "method" not in message:
        if "error" in message:
            _validator("JSONRPCError").validate(message)
        else:
            _validator(METHODS[methods[message["id"]]].result).validate(message["result"])
    elif "id" in message:
        assert message["method"] in SERVER_REQUESTS
        _validator("ServerRequest", message["method"]).validate(message)
    else:
        assert isinstance(message["emittedAtMs"], int)
        _validator("ServerNotification", message["method"]).validate(message)


class Client:
    """A client over a transport in memory. It is also the transport."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.problems: list[Exception] = []  # messages that do not fit the schema
        self.closed = False
        self._to_server: asyncio.Queue[str | None] = asyncio.Queue()
        self._arrived = asyncio.Condition()
        self._read = 0
        self._serial = 0
        self._methods: dict[Any, str] = {}
        self.reading = asyncio.Event()
        self.reading.set()

    # The transport

    async def receive(self) -> str | None:
        return await self._to_server.get()

    async def send(self, messages: list[bytes]) -> None:
        await self.reading.wait()
        for text in messages:
            message = json.loads(text)
            try:
                check_message(message, self._methods)
            except Exception as problem:
                self.problems.append(problem)
            self.seen.append(message)
        async with self._arrived:
            self._arrived.notify_all()

    async def aclose(self) -> None:
        self.closed = True
        async with self._arrived:
            self._arrived.notify_all()

    # The client

    def write(self, message: object) -> None:
        self._to_server.put_nowait(message if isinstance(message, str) else json.dumps(message))

    def leave(self) -> None:
        self._to_server.put_nowait(None)

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read on, to the first message that is wanted."""

        def found() -> bool:
            while self._read < len(self.seen):
                self._read += 1
                if wanted(self.seen[self._read - 1]):
                    return True
            assert not self.closed, "the server has closed the connection"
            return False

        try:
            async with asyncio.timeout(LIMIT_S), self._arrived:
                await self._arrived.wait_for(found)
        except TimeoutError:
            raise AssertionError(f"it did not come; what came last: {self.seen[-5:]}") from None
        return self.seen[self._read - 1]

    async def until_closed(self) -> None:
        async with asyncio.timeout(LIMIT_S), self._arrived:
            await self._arrived.wait_for(lambda: self.closed)

    def start(self, method: str, **params: Any) -> int:
        self._serial += 1
        self._methods[self._serial] = method
        self.write({"id": self._serial, "method": method, "params": params})
        return self._serial

    async def response(self, number: object) -> dict[str, Any]:
        """Return a response, which may have come already."""
        async with asyncio.timeout(LIMIT_S), self._arrived:
            await self._arrived.wait_for(lambda: self.closed or any(self._answers(each, number) for each in self.seen))
        return next(each for each in self.seen if self._answers(each, number))

    @staticmethod
    def _answers(message: dict[str, Any], number: object) -> bool:
        return message.get("id") == number and "method" not in message

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        response = await self.response(self.start(method, **params))
        assert "result" in response, response
        result: dict[str, Any] = response["result"]
        return result

    async def fail(self, method: str, **params: Any) -> dict[str, Any]:
        response = await self.response(self.start(method, **params))
        error: dict[str, Any] = response["error"]
        return error

    async def hello(self, **capabilities: Any) -> dict[str, Any]:
        info = {"name": "test", "title": "Test", "version": "1"}
        result = await self.call("initialize", clientInfo=info, capabilities=capabilities or None)
        self.write({"method": "initialized"})
        return result

    async def notification(self, method: str) -> dict[str, Any]:
        """Read on, to the next notification of a method."""
        message = await self.until(lambda message: message.get("method") == method and "id" not in message)
        params: dict[str, Any] = message["params"]
        return params

    async def question(self, method: str = "") -> dict[str, Any]:
        """Read on, to the next request of the server."""
        return await self.until(lambda each: "id" in each and "method" in each and method in ("", each["method"]))

    def answer(self, question: dict[str, Any], **result: Any) -> None:
        self.write({"id": question["id"], "result": result})

    async def turn(self, thread_id: str, text: str, **params: Any) -> dict[str, Any]:
        """Run a turn to its end, and return it."""
        parts = [{"type": "text", "text": text}]
        started = await self.call("turn/start", threadId=thread_id, input=parts, **params)
        ended = await self.until(
            lambda each: (
                each.get("method") == "turn/completed" and each["params"]["turn"]["id"] == started["turn"]["id"]
            )
        )
        turn: dict[str, Any] = ended["params"]["turn"]
        return turn

    def methods(self) -> list[str]:
        """The methods of all notifications and requests so far, in order."""
        return [message["method"] for message in self.seen if "method" in message]


class Running:
    """A server and its clients."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._clients: list[Client] = []
        self._serving: list[asyncio.Task[None]] = []

    def connect(self) -> Client:
        client = Client()
        self._clients.append(client)
        self._serving.append(asyncio.ensure_future(self.server.serve(client)))
        return client

    async def aclose(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self.server.aclose()
        for client in self._clients:
            assert client.problems == []


@pytest.fixture
def serving(home: Home) -> Callable[..., Any]:
    """Open a server: ``async with serving() as running``."""

    @asynccontextmanager
    async def opened(*overrides: str, plugins: Sequence[object] = ()) -> AsyncIterator[Running]:
        async with Kernels.open(home.work, environ=home.env, overrides=overrides, plugins=plugins) as kernels:
            running = Running(Server(kernels, METHODS))
            try:
                yield running
            finally:
                await running.aclose()

    return opened


@pytest.fixture
def connected(serving: Callable[..., Any]) -> Callable[..., Any]:
    """Open a server with one client that has introduced itself: ``async with connected() as client``."""

    @asynccontextmanager
    async def opened(*overrides: str, plugins: Sequence[object] = (), **capabilities: Any) -> AsyncIterator[Client]:
        async with serving(*overrides, plugins=plugins) as running:
            client = running.connect()
            await client.hello(**capabilities)
            yield client

    return opened
