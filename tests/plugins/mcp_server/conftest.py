"""The installed command as a server, with a model on loopback, and the official SDK's client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ResponsesServer

COMMAND = Path(sys.executable).with_name("codex-framework")


class Home:
    """A home, a workspace, and a scripted model."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self.work = folder / "work"
        self.path.mkdir()
        self.work.mkdir()
        self.models: list[ResponsesServer] = []
        self.plugins: list[Path] = []
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

    def argv(self, *options: str) -> list[str]:
        plugins = [word for plugin in self.plugins for word in ("--plugin", str(plugin))]
        return [str(COMMAND), *plugins, "mcp-server", *options]

    @property
    def rollouts(self) -> list[Path]:
        return sorted((self.path / "sessions").rglob("rollout-*.jsonl"))


@pytest.fixture(scope="session")
def sdk() -> None:
    """The SDK, which takes half a second to import, so tests import it themselves."""
    try:
        found = version("mcp")
    except PackageNotFoundError:
        found = "0"
    if int(found.split(".")[0]) < 2:
        pytest.skip("the MCP SDK is not installed (extra `mcp`)")


@pytest.fixture
def home(sdk: None, tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    for model in made.models:
        model.stop()


class Raw:
    """A client of the revision 2025-06-18 that sees every message."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        self.reader = reader
        self.writer = writer
        self.seen: list[dict[str, Any]] = []
        self._serial = 0

    async def send(self, **message: Any) -> None:
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await asyncio.sleep(0)

    async def read(self) -> dict[str, Any]:
        line = await self.reader.readline()
        assert line, "the server has closed its stdout"
        message: dict[str, Any] = json.loads(line)
        self.seen.append(message)
        return message

    async def hello(self, capabilities: dict[str, Any] | None) -> None:
        capabilities = {"elicitation": {}} if capabilities is None else capabilities
        client = {"name": "test", "version": "1"}
        await self.request("initialize", protocolVersion="2025-06-18", capabilities=capabilities, clientInfo=client)
        await self.send(method="notifications/initialized")

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while not wanted(message := await self.read()):
            pass
        return message

    async def start(self, method: str, **params: Any) -> int:
        self._serial += 1
        await self.send(id=self._serial, method=method, params=params)
        return self._serial

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        number = await self.start(method, **params)
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def call(self, tool: str, **arguments: Any) -> int:
        return await self.start("tools/call", name=tool, arguments=arguments)

    async def result(self, number: int) -> dict[str, Any]:
        """Read to the response of a request."""
        message = await self.until(lambda message: message.get("id") == number and "method" not in message)
        result: dict[str, Any] = message["result"]
        return result

    async def question(self) -> dict[str, Any]:
        """Read to the next elicitation."""
        return await self.until(lambda message: message.get("method") == "elicitation/create")

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        found = [message["params"] for message in self.seen if message.get("method") == "codex/event"]
        return [params for params in found if not kind or params["msg"]["type"] == kind]


@pytest.fixture
def raw(home: Home, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Open a client of a server in this process: ``async with raw(Options(), capabilities={...}) as client``."""

    @asynccontextmanager
    async def opened(
        options: Any = None, *, capabilities: dict[str, Any] | None = None, greets: bool = True
    ) -> AsyncIterator[Raw]:
        from codex_plugin_mcp_server.options import Options
        from codex_plugin_mcp_server.serving import serve_stdio, serving

        monkeypatch.chdir(home.work)
        (from_client, to_server), (from_server, to_client) = os.pipe(), os.pipe()
        source, sink = os.fdopen(from_client, "rb"), os.fdopen(to_client, "wb")
        served = asyncio.ensure_future(
            serving(options or Options(), home.env, lambda service: serve_stdio(service, source, sink))
        )
        reader = asyncio.StreamReader(limit=1 << 24)
        incoming, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb")
        )
        with os.fdopen(to_server, "wb", buffering=0) as writer:
            client = Raw(reader, writer)
            try:
                if greets:
                    await client.hello(capabilities)
                yield client
            finally:
                writer.close()
                await asyncio.wait({served})
                incoming.close()
                source.close()
                sink.close()
                assert served.result() == 0

    return opened


@pytest.fixture
def process(home: Home) -> Callable[..., Any]:
    """Open a client of the installed command: ``async with process(*options) as (client, process)``."""

    @asynccontextmanager
    async def opened(*options: str) -> AsyncIterator[tuple[Raw, asyncio.subprocess.Process]]:
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(
            *home.argv(*options), stdin=pipe, stdout=pipe, stderr=pipe, cwd=home.work, env=home.env, limit=1 << 24
        )
        assert started.stdout is not None
        client = Raw(started.stdout, started.stdin)
        try:
            await client.hello(None)
            yield client, started
        finally:
            if started.returncode is None:
                started.kill()
            await started.wait()

    return opened


@pytest.fixture
def play() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a story, at most for a minute."""

    def played(story: Coroutine[Any, Any, Any]) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(60):
                return await story

        return asyncio.run(within())

    return played
