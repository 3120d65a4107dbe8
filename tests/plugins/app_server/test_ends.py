"""How the server ends, and what it does while something around it fails."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from codex_framework import Component, ContextSource, Interceptor, ThreadComponent, hookimpl
from codex_framework.testing.replies import call, say

from .test_sockets import call as call_over_socket
from .test_sockets import hello, started

HELLO = {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "ends", "version": "1"}}}
WORDS = [sys.executable, "-m", "codex_framework", "app-server"]


class Program:
    """A server over stdio, and its client, which waits for each answer."""

    def __init__(self, home: Any, *options: str, limits: Callable[[], None] | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*WORDS, *options],
            cwd=home.work,
            env=home.env,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            preexec_fn=limits,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.write(HELLO)
        self.read(lambda message: message.get("id") == 0)

    def write(self, message: dict[str, Any]) -> None:
        self.input.write(json.dumps(message).encode() + b"\n")
        self.input.flush()

    def read(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read on, to the first message that is wanted."""
        for line in self.output:
            message: dict[str, Any] = json.loads(line)
            if wanted(message):
                return message
        raise AssertionError("the server has ended")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.write({"id": 1, "method": method, "params": params})
        response = self.read(lambda message: message.get("id") == 1 and "method" not in message)
        assert "result" in response, response
        result: dict[str, Any] = response["result"]
        return result

    def start_turn(self, thread_id: str) -> None:
        self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])

    def run_turn(self, thread_id: str) -> str:
        self.start_turn(thread_id)
        ended = self.read(lambda message: message.get("method") == "turn/completed")
        return str(ended["params"]["turn"]["status"])


@contextmanager
def program(home: Any, *options: str, limits: Callable[[], None] | None = None) -> Iterator[Program]:
    """Run a server, end it by closing its stdin, and check its exit status."""
    made = Program(home, *options, limits=limits)
    try:
        yield made
        _, errors = made.process.communicate(timeout=100)
        assert made.process.returncode == 0
        assert b"Traceback" not in errors, errors
    finally:
        made.process.kill()
        made.process.communicate()


def recorded_types(home: Any) -> list[str]:
    """Return the types in the one record."""
    (file,) = home.path.rglob("rollout-*.jsonl")
    return [json.loads(line)["payload"].get("type", "") for line in file.read_text().splitlines()]


def end_by_signal(made: Program) -> None:
    made.process.send_signal(signal.SIGTERM)


def end_by_closing(made: Program) -> None:
    made.input.close()
    made.process.stdin = None


@pytest.mark.slow
@pytest.mark.parametrize("end", [end_by_signal, end_by_closing])
@pytest.mark.parametrize(
    ("reply", "sign"),
    [
        (call("exec_command", cmd="echo $$ > pid; exec sleep 1000", yield_time_ms=60_000), "item/started"),
        (call("exec_command", cmd="touch mark", sandbox_permissions="require_escalated"), "item/commandExecution"),
        (say("x" * 2000).evolve(deltas=2000, delta_delay_s=0.1), "item/agentMessage/delta"),
    ],
)
def test_server_ends_with_a_turn_under_way_and_records_that_it_was_aborted(
    home: Any, reply: Any, sign: str, end: Callable[[Program], None]
) -> None:
    home.serve(reply)
    with program(home) as made:
        thread_id = made.call("thread/start", approvalPolicy="on-request", approvalsReviewer="user")["thread"]["id"]
        made.start_turn(thread_id)
        made.read(lambda each: each.get("method", "").startswith(sign) and "userMessage" not in str(each))
        end(made)
    assert recorded_types(home)[-1] == "turn_aborted"
    assert not (home.work / "mark").exists()
    if (home.work / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((home.work / "pid").read_text()), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "streams", ["</dev/null", "<&-", "<&- >&-", "</dev/null >/dev/full", "<hello >/dev/full", "<hello"]
)
def test_server_without_a_client_ends_at_once(home: Any, streams: str) -> None:
    home.serve()
    (home.work / "hello").write_text(f"{json.dumps(HELLO)}\n")
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {streams}', "sh", *WORDS],
        cwd=home.work,
        env=home.env,
        capture_output=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (b"userAgent" in ended.stdout) == (streams == "<hello")


@pytest.mark.slow
def test_thread_whose_record_cannot_be_written_goes_on_and_the_others_are_recorded(home: Any) -> None:
    home.serve(say("y" * 300_000), say("small"), say("more"))

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    with program(home, limits=limit_files) as made:
        full, other = (made.call("thread/start")["thread"]["id"] for _ in range(2))
        made.start_turn(full)
        warning = made.read(lambda message: message.get("method") == "warning")
        assert "Failed to save the conversation" in warning["params"]["message"]
        made.read(lambda message: message.get("method") == "turn/completed")
        assert made.run_turn(other) == "completed"
        assert made.run_turn(full) == "completed"
        end_by_closing(made)
    (record,) = home.path.rglob(f"*{other}*.jsonl")
    assert json.loads(record.read_text().splitlines()[-1])["payload"]["type"] == "task_complete"


@pytest.mark.slow
def test_clients_beyond_a_quarter_of_the_files_are_refused_and_the_others_work(home: Any) -> None:
    home.serve(say("one"))

    async def run(url: str) -> None:
        clients = [await connect(url) for _ in range(24)]
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == 503
        await hello(clients[0])
        thread_id = (await call_over_socket(clients[0], 1, "thread/start"))["thread"]["id"]
        go = [{"type": "text", "text": "go"}]
        await call_over_socket(clients[0], 2, "turn/start", threadId=thread_id, input=go)
        async with asyncio.timeout(60):
            while json.loads(await clients[0].recv()).get("method") != "turn/completed":
                pass
        for client in clients:
            await client.close()

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, before[1]))  # the server inherits it
    try:
        server = started(home, "--listen", "ws://127.0.0.1:0")
        url = server.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    try:
        asyncio.run(run(url))
    finally:
        server.__exit__(None, None, None)


class Breaking:
    """A plugin whose objects raise exceptions while it is told to."""

    def __init__(self) -> None:
        self.breaks = False

    def fail(self, *_: object, **__: object) -> None:
        if self.breaks:
            raise RuntimeError("on purpose")

    @hookimpl
    def codex_components(self) -> list[Any]:
        plugin = self

        class Part(ThreadComponent):
            async def start(self) -> None:
                plugin.fail()

            def on_event(self, event: Any) -> None:
                plugin.fail()

            async def begin_turn(self, turn: Any) -> None:
                plugin.fail()

            async def end_turn(self, turn: Any, outcome: Any) -> None:
                plugin.fail()

        class Breaks(Component):
            name = "breaks"

            def for_thread(self, thread: Any) -> ThreadComponent:
                plugin.fail()
                return Part()

        return [Breaks()]

    @hookimpl
    def codex_context_sources(self) -> list[Any]:
        plugin = self

        class Source(ContextSource):
            name = "breaks"

            def fragments(self, turn: Any) -> Any:
                plugin.fail()
                return ()

        return [Source()]

    @hookimpl
    def codex_interceptors(self) -> list[Any]:
        plugin = self

        class Intercepts(Interceptor):
            name = "breaks"

            async def request(self, request: Any, context: Any) -> Any:
                plugin.fail()
                return request

        return [Intercepts()]


def test_plugin_that_raises_ends_neither_the_server_nor_other_clients(home: Any, serving: Callable[..., Any]) -> None:
    home.serve(say("done"), repeat_last=True)
    plugin = Breaking()

    async def run() -> None:
        async with serving(plugins=[plugin]) as running:
            first, second = running.connect(), running.connect()
            await first.hello()
            await second.hello()
            thread_id = (await first.call("thread/start", cwd=str(home.work)))["thread"]["id"]
            await second.call("thread/resume", threadId=thread_id)
            plugin.breaks = True
            assert (await first.turn(thread_id, "hi"))["status"] in {"completed", "failed"}
            await second.notification("turn/completed")
            await second.response(second.start("thread/start", cwd=str(home.work)))
            assert await second.call("model/list")
            plugin.breaks = False
            assert (await first.turn(thread_id, "hi"))["status"] == "completed"
            other = (await second.call("thread/start", cwd=str(home.work)))["thread"]["id"]
            assert (await second.turn(other, "hi"))["status"] == "completed"

    asyncio.run(run())
