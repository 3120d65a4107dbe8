"""When the request leaves: before anything else that is ready, and before that which only its response needs."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time

import pytest

from codex_framework import Completed, ModelError, ModelEvent, ProviderInfo
from codex_framework.testing.replies import say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_plugin_openai.provider import ResponsesProvider

_READS = ("events", "faults", "rate_limits", "sse")

PROGRAM = """
import asyncio, socket, sys
from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.requests import model_request
from codex_plugin_openai.provider import ResponsesProvider

async def main():
    client = ResponsesProvider().open(ProviderInfo(id="x", base_url=f"http://127.0.0.1:{port}/v1", request_max_retries=0), {})
    asking = asyncio.ensure_future(anext(client.stream(model_request())))
    beside = asyncio.ensure_future(look())
    await beside
    try:
        await asking
    except ModelError as error:
        print(error.slug)

async def look():
    print(sorted(name for name in sys.modules if name.startswith(("codex_plugin_openai.", "codex_lib_model_client.")) ))
    listener.settimeout(60)
    served, _ = listener.accept()
    served.settimeout(60)
    print(served.recv(4))
    served.close()

with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
    asyncio.run(main())
"""


def test_the_request_leaves_before_other_tasks_run_and_before_its_reader_is_loaded() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    modules, start, slug = result.stdout.splitlines()
    assert "codex_lib_model_client.http_transport" in modules
    assert [name for name in _READS if f".{name}'" in modules] == []
    assert start == "b'POST'"
    assert slug == "unreachable"


async def _asked(server: ResponsesServer, prompt: str = "go", pause_s: float = 0.0) -> list[ModelEvent]:
    info = ProviderInfo(id="x", base_url=server.url, request_max_retries=0)
    client = ResponsesProvider().open(info, {})

    async def ask() -> list[ModelEvent]:
        return [event async for event in client.stream(model_request(instructions=prompt))]

    asking = asyncio.ensure_future(ask())
    await asyncio.sleep(0)  # the request is sent
    time.sleep(pause_s)  # noqa: ASYNC251  # the loop stands still while the response arrives
    try:
        return await asking
    finally:
        await client.aclose()


def test_a_response_that_comes_before_the_loop_goes_on_is_read() -> None:
    with ResponsesServer([say("Hi.")]) as server:
        events = asyncio.run(_asked(server, pause_s=0.3))
    assert isinstance(events[-1], Completed)


def test_a_request_larger_than_the_socket_takes_at_once_arrives_whole() -> None:
    prompt = "x" * 20_000_000
    with ResponsesServer([say("Hi.")]) as server:
        events = asyncio.run(_asked(server, prompt))
        (request,) = server.requests
    assert isinstance(events[-1], Completed)
    assert prompt.encode() in request.body


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "localhost"])
def test_every_name_of_this_machine_is_reached(host: str) -> None:
    with ResponsesServer([say("Hi.")]) as server:
        server_url = server.url.replace("127.0.0.1", host)
        info = ProviderInfo(id="x", base_url=server_url, request_max_retries=0)

        async def run() -> list[ModelEvent]:
            client = ResponsesProvider().open(info, {})
            events = [event async for event in client.stream(model_request())]
            await client.aclose()
            return events

        assert isinstance(asyncio.run(run())[-1], Completed)


def test_a_server_that_does_not_accept_holds_up_nothing() -> None:
    """Its queue is full: the ordinary way of connecting waits, and other tasks run meanwhile."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(("127.0.0.1", port))

        async def run() -> float:
            info = ProviderInfo(id="x", base_url=f"http://127.0.0.1:{port}/v1", request_max_retries=0)
            client = ResponsesProvider().open(info, {})
            asking = asyncio.ensure_future(anext(client.stream(model_request())))
            started = time.monotonic()
            await asyncio.sleep(0)
            held = time.monotonic() - started
            asking.cancel()
            with pytest.raises((asyncio.CancelledError, ModelError)):
                await asking
            await client.aclose()
            return held

        held = asyncio.run(run())
        for one in waiting:
            one.close()
    assert held < 1
