"""A server on loopback with an app, a scripted model behind it, and clients."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from codex_contrib_web import AgentApp
from codex_framework import Kernel, tool
from codex_framework.config import load_config
from codex_framework.testing import Offer, ScriptedModel

ON_REQUEST = ('approval_policy="on-request"',)


@tool(needs_approval=True)
def deploy() -> str:
    """Deploy."""
    return "deployed"


def types(envelopes: Sequence[Any]) -> list[str]:
    """Return the types of events."""
    return [each["msg"]["type"] for each in envelopes]


class Stream:
    """The server-sent events of one response."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.cursor = ""
        self._lines = response.aiter_lines()

    async def __aiter__(self) -> AsyncIterator[tuple[str, Any]]:
        kind, data = "message", ""
        async for line in self._lines:
            name, _, value = line.partition(": ")
            match name:
                case "id":
                    self.cursor = value
                case "event":
                    kind = value
                case "data":
                    data = value
                case "" if data:
                    yield kind, json.loads(data)
                    kind, data = "message", ""

    async def until(self, *types: str) -> list[Any]:
        """Return the envelopes up to the first event of one of these types, or to the end of the stream."""
        seen: list[Any] = []
        async for kind, told in self:
            seen.append(told if kind == "message" else {"msg": {"type": kind}, **told})
            if seen[-1]["msg"]["type"] in types:
                break
        return seen


class Client:
    """A client of the server, as one user.

    Attributes:
        kernel: The kernel of the server, which runs in the same process.
    """

    def __init__(self, http: httpx.AsyncClient, kernel: Kernel) -> None:
        self.http = http
        self.kernel = kernel

    async def call(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        """Return status and body of a response."""
        given = {} if body is None else {"json": body}
        response = await self.http.request(method, path, **given, **more)
        return response.status_code, response.json()

    async def post(self, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        return await self.call("POST", path, body, **more)

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        return await self.call("GET", path, **more)

    async def start(self, prompt: str | None = None, **more: Any) -> str:
        """Start a thread, and return its path."""
        status, told = await self.post("/threads", {} if prompt is None else {"input": prompt}, **more)
        assert status == 201, told
        return f"/threads/{told['id']}"

    @asynccontextmanager
    async def events(self, path: str, cursor: str = "") -> AsyncIterator[Stream]:
        headers = {"last-event-id": cursor} if cursor else {}
        async with self.http.stream("GET", f"{path}/events", headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield Stream(response)


async def follow(client: Client, path: str, *until: str, cursor: str = "") -> list[Any]:
    """Return the events of a thread up to the first one of these types."""
    async with client.events(path, cursor) as stream:
        return await stream.until(*until)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI app on loopback."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=30))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.ensure_future(server.serve([listener]))
        try:
            while not server.started:
                assert not task.done(), "the server did not start"
                await asyncio.sleep(0.001)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await asyncio.wait_for(task, 60)


class Site:
    """Apps of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def kernel(
        self, replies: Sequence[Any], tools: Sequence[Any] = (), config: Sequence[str] = ()
    ) -> Callable[[], Awaitable[Kernel]]:
        """Return what creates a kernel with a scripted model."""

        async def create() -> Kernel:
            environ = {**os.environ, "CODEX_HOME": str(self.folder / "home")}
            overrides = ["model_provider=scripted", *config]
            loaded = load_config(cwd=self.folder, environ=environ, overrides=overrides)
            model = ScriptedModel(replies, repeat_last=True)
            return await Kernel.create(loaded, environ=environ, plugins=[Offer(providers=[model], tools=tools)])

        return create

    @asynccontextmanager
    async def client(
        self, replies: Sequence[Any], tools: Sequence[Any] = (), config: Sequence[str] = (), **options: Any
    ) -> AsyncIterator[Client]:
        """Serve an app with a scripted model, and return a client of it."""
        kernels: list[Kernel] = []
        create = self.kernel(replies, tools, config)

        async def keep() -> Kernel:
            kernels.append(await create())
            return kernels[-1]

        async with (
            serving(AgentApp(kernel=keep, **options)) as url,
            httpx.AsyncClient(base_url=url, timeout=60) as http,
        ):
            yield Client(http, kernels[-1])
