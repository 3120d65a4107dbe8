"""What agents over HTTP cost: threads that each have a client of server-sent events, in one process.

    python benchmarks/web.py [--threads 1000] [--turns 5] [--deltas 20]

Needs ``codex-contrib-web`` and ``uvicorn``. The model and the clients are processes of their own on loopback. The Python API runs the
same turns in a process of its own, with a listener for each thread: the ratios are what HTTP costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from app_server import Process, model_home

AT_ONCE = 50
"""Turns that run at the same time."""


async def for_all(threads: list[Any], work: Callable[[Any], Awaitable[object]]) -> None:
    """Work on all threads, so many at the same time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(thread: Any) -> None:
        async with gate:
            await work(thread)

    await asyncio.gather(*map(one, threads))


async def serve_api(count: int) -> None:
    """Start threads with listeners, and run a turn in each of them for each line of standard input."""
    from codex_framework import Kernel
    from codex_framework.config import load_config

    events = 0

    def hear(_: object) -> None:
        nonlocal events
        events += 1

    async with await Kernel.create(load_config(cwd=Path.cwd(), environ=os.environ)) as kernel:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        threads = [await kernel.start_thread() for _ in range(count)]
        listening = [asyncio.ensure_future(thread.events().each(hear)) for thread in threads]
        await asyncio.sleep(0)
        print(events, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            await for_all(threads, lambda thread: thread.run("go"))
            print(events, flush=True)
        for task in listening:
            task.cancel()


async def serve_web() -> None:
    """Serve the app."""
    import socket

    import uvicorn

    from codex_contrib_web import AgentApp
    from codex_framework import Kernel
    from codex_framework.config import load_config

    app = AgentApp(
        kernel=lambda: Kernel.create(load_config(cwd=Path.cwd(), environ=os.environ)), authenticate=lambda _: "bench"
    )
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_keep_alive=3600))
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await server.serve([listener])


class Follower:
    """A client of the events of one thread."""

    def __init__(self, port: int, thread_id: str) -> None:
        self._port = port
        self.thread_id = thread_id
        self.events = 0
        self.cursor = b""
        self._ended = asyncio.Event()

    async def connect(self) -> None:
        """Begin, or go on where it was."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"GET /threads/{self.thread_id}/events HTTP/1.1\r\nhost: localhost\r\n".encode()
        self._writer.write(head + (b"last-event-id: " + self.cursor + b"\r\n" if self.cursor else b"") + b"\r\n")
        while await self._reader.readline() != b"\r\n":
            pass
        self._reading = asyncio.ensure_future(self._read())

    async def disconnect(self) -> None:
        """Leave."""
        self._reading.cancel()
        self._writer.close()

    async def wait(self) -> None:
        """Wait for the end of the turn."""
        await self._ended.wait()
        self._ended.clear()

    async def _read(self) -> None:
        async for line in self._reader:
            if line.startswith(b"id: "):
                self.cursor = line[4:].strip()
            elif line.startswith(b"data: "):
                self.events += 1
                if b'"type":"task_complete"' in line:
                    self._ended.set()
            elif line.startswith(b"event: "):
                raise SystemExit(f"a client has missed events: {line!r}")


class Figures:
    """What is measured of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._memory = process.memory_mb
        self.rows: dict[str, float] = {}

    @asynccontextmanager
    async def cpu(self, name: str, count: Callable[[], int]) -> Any:
        """Measure the CPU time for each of what is counted."""
        before, began, cpu = count(), time.perf_counter(), self._process.cpu_ms
        yield
        self.rows[f"{name}, CPU time (us)"] = (self._process.cpu_ms - cpu) * 1000 / (count() - before)
        self.rows[f"{name}, on the clock (us)"] = (time.perf_counter() - began) * 1e6 / (count() - before)

    def memory(self, name: str, threads: int) -> None:
        """Measure the memory for each thread since the start."""
        self.rows[f"{name}, memory of a thread (KB)"] = (self._process.memory_mb - self._memory) * 1024 / threads


async def measure_web(process: Process, threads: int, turns: int) -> dict[str, float]:
    """Run the turns over HTTP."""
    url = process.output.readline().decode().strip()
    if not url:
        sys.exit(process.errors.read().decode())
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=600, trust_env=False) as http:
        for _ in range(1000):
            if (await http.get("/threads")).status_code == 200:
                break
            await asyncio.sleep(0.05)
        figures = Figures(process)
        followers: list[Follower] = []

        async def start(_: object) -> None:
            thread_id = (await http.post("/threads")).json()["id"]
            followers.append(Follower(int(url.rpartition(":")[2]), thread_id))
            await followers[-1].connect()

        async def run(follower: Follower) -> None:
            answer = await http.post(f"/threads/{follower.thread_id}/turns", json={"input": "go"})
            assert answer.status_code == 202, answer.text
            await follower.wait()

        async with figures.cpu("start", lambda: len(followers)):
            await for_all(list(range(threads)), start)
        figures.memory("idle", threads)
        await for_all(list(followers), run)
        figures.memory("after a turn", threads)
        async with figures.cpu("event", lambda: sum(each.events for each in followers)):
            for _ in range(turns):
                await for_all(list(followers), run)
        figures.memory(f"after {turns + 1} turns", threads)
        came_back = 0

        async def come_back(follower: Follower) -> None:
            nonlocal came_back
            await follower.disconnect()
            await follower.connect()
            came_back += 1

        async with figures.cpu("coming back", lambda: came_back):
            await for_all(list(followers), come_back)
        for follower in followers:
            await follower.disconnect()
        return figures.rows


async def measure_api(process: Process, threads: int, turns: int) -> dict[str, float]:
    """Run the turns in a process."""
    events = 0

    async def tell() -> None:
        nonlocal events
        process.input.write(b"\n")
        process.input.flush()
        events = int(await asyncio.to_thread(process.output.readline))

    await asyncio.to_thread(process.output.readline)
    figures = Figures(process)
    async with figures.cpu("start", lambda: events and threads):
        await tell()
    figures.memory("idle", threads)
    await tell()
    figures.memory("after a turn", threads)
    async with figures.cpu("event", lambda: events):
        for _ in range(turns):
            await tell()
    figures.memory(f"after {turns + 1} turns", threads)
    return figures.rows


def main() -> None:
    """Measure both, and print the figures side by side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--deltas", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", choices=["api", "web"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if options.serve is not None:
        asyncio.run(serve_web() if options.serve == "web" else serve_api(options.threads))
        return
    found = {}
    for name, measure in (("api", measure_api), ("web", measure_web)):
        argv = [sys.executable, __file__, "--serve", name, "--threads", str(options.threads)]
        with model_home(options.deltas) as home, Process(argv, home) as process:
            found[name] = asyncio.run(measure(process, options.threads, options.turns))
    if options.json:
        print(json.dumps(found))
        return
    print(f"{options.threads} threads, {options.turns} turns each, messages of {options.deltas} pieces\n")
    for row, web in found["web"].items():
        api = found["api"].get(row)
        print(
            f"{row:44}{'' if api is None else f'{api:12,.1f}':>12}{web:12,.1f}{'' if api is None else f'{web / api:9.2f} x'}"
        )


if __name__ == "__main__":
    main()
