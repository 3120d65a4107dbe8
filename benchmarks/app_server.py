"""What the app server costs its clients: the start, a turn, a delta, and many threads at once.

    python benchmarks/app_server.py [--rounds 5] [--codex PATH]
    python benchmarks/app_server.py --load 10
    python benchmarks/app_server.py --instructions

The model is a process of its own on loopback and gives everybody the same answers. The Python API runs the same turns in a process of
its own: the difference is what the protocol costs. If ``codex`` is on the path, or ``--codex`` names it, its app server gets the same
requests in the same rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

TURNS = 100
DELTAS = 20_000
THREADS = 200
CONNECTIONS = 20
OVERLOADED = -32001


@contextmanager
def model_home(deltas: int) -> Iterator[Path]:
    """Run a model server whose messages come in so many pieces. Yield a home that is set up for it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "script.json").write_text(json.dumps([{"say": "0123456789" * deltas, "deltas": deltas}]))
        words = [sys.executable, "-m", "codex_framework.testing.server_process", "--script", home / "script.json"]
        options = ["--wire", "responses", "--repeat-last", "--until-eof", *(["--whole"] if deltas > 1 else [])]
        with subprocess.Popen([*words, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            (home / "config.toml").write_text(
                'model = "gpt-5.5"\nmodel_provider = "bench"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
                f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}"\nrequest_max_retries = 0\n'
            )
            (home / "work").mkdir()
            yield home


class Process:
    """A server that is being measured."""

    def __init__(self, argv: Sequence[str], home: Path) -> None:
        env = {"PATH": os.environ.get("PATH", os.defpath), "CODEX_HOME": str(home), "HOME": str(home)}
        env |= {"PYTHONHASHSEED": "0"}  # otherwise sets of strings have another order each time
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=home / "work", env=env)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.input, self.output, self.errors = self._process.stdin, self._process.stdout, self._process.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.communicate()

    @property
    def cpu_ms(self) -> float:
        """The CPU time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> float:
        """Its memory that is no part of a file."""
        found = re.search(r"^RssAnon:\s+(\d+)", Path(f"/proc/{self._process.pid}/status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024


class StdioClient:
    """A client over stdio, which waits for each answer."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._serial = 0

    def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        self._serial += 1
        self._process.input.write(json.dumps({"id": self._serial, "method": method, "params": params}).encode() + b"\n")
        self._process.input.flush()
        while (line := self._line()).startswith(b'{"method"'):
            pass
        return json.loads(line)["result"]

    def start_thread(self) -> str:
        """Introduce the client, and start a thread."""
        self.call("initialize", clientInfo={"name": "bench", "version": "1"})
        return str(self.call("thread/start")["thread"]["id"])

    def run_turn(self, thread_id: str) -> None:
        """Run a turn to its end."""
        self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        while not self._line().startswith(b'{"method":"turn/completed"'):
            pass

    def _line(self) -> bytes:
        line = self._process.output.readline()
        if not line:
            raise SystemExit(f"the server has ended: {self._process.errors.read().decode()[-2000:]}")
        return line


def run_turns(argv: Sequence[str], home: Path, turns: int) -> dict[str, float]:
    """Return the cost of the start of a server, and of each of so many turns of one thread."""
    began = time.perf_counter()
    with Process([*argv, "app-server"], home) as process:
        client = StdioClient(process)
        client.call("initialize", clientInfo={"name": "bench", "version": "1"})
        start = (time.perf_counter() - began) * 1000
        thread_id = client.call("thread/start")["thread"]["id"]
        client.run_turn(thread_id)
        began, cpu = time.perf_counter(), process.cpu_ms
        for _ in range(turns):
            client.run_turn(thread_id)
        return {
            "start": start,
            "wall": (time.perf_counter() - began) * 1000 / turns,
            "cpu": (process.cpu_ms - cpu) / turns,
        }


async def run_turns_by_api(turns: int) -> dict[str, float]:
    """Return the cost of each of so many turns of one thread, by the Python API in this process."""
    from codex_framework import Kernel
    from codex_framework.config import load_config

    async with await Kernel.create(load_config(cwd=Path.cwd(), environ=os.environ)) as kernel:
        thread = await kernel.start_thread()
        await thread.run("go")
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(turns):
            async for _ in thread.stream("go"):
                pass
        return {
            "wall": (time.perf_counter() - began) * 1000 / turns,
            "cpu": (time.process_time() - cpu) * 1000 / turns,
        }


class SocketClient:
    """A client over a WebSocket with many threads."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._waiting: dict[object, asyncio.Future[Any]] = {}
        self._turns: dict[str, asyncio.Future[None]] = {}
        self._serial = 0
        self.refused = 0

    async def read(self) -> None:
        """Read messages until the connection is closed."""
        async for text in self._connection:
            if text.startswith('{"method"'):
                if text.startswith('{"method":"turn/completed"'):
                    ended = json.loads(text)["params"]
                    if ended["turn"]["status"] != "completed":
                        raise SystemExit(f"a turn failed: {ended}")
                    self._turns.pop(ended["threadId"]).set_result(None)
            else:
                message = json.loads(text)
                self._waiting.pop(message["id"]).set_result(message)

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result. Send it again if the server is overloaded, as SDKs do."""
        while True:
            self._serial += 1
            message = {"id": self._serial, "method": method, "params": params}
            response = self._waiting[self._serial] = asyncio.get_running_loop().create_future()
            await self._connection.send(json.dumps(message))
            answer = await response
            if answer.get("error", {}).get("code") != OVERLOADED:
                return answer["result"]
            self.refused += 1
            await asyncio.sleep(0.01)

    async def run_turn(self, thread_id: str) -> None:
        """Run a turn to its end."""
        ended = self._turns[thread_id] = asyncio.get_running_loop().create_future()
        await self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        await ended


async def run_load(process: Process, url: str, rounds: int) -> None:
    """Start threads over several connections, run a turn in each of them at once in every round, and print time and memory."""
    from websockets.asyncio.client import connect

    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for _ in range(CONNECTIONS):
            client = SocketClient(await stack.enter_async_context(connect(url, max_size=None)))
            reading = asyncio.ensure_future(client.read())
            stack.callback(reading.cancel)
            clients.append(client)
            await client.call("initialize", clientInfo={"name": "bench", "version": "1"})
        empty, began = process.memory_mb, time.perf_counter()
        starts = [client.call("thread/start") for client in clients for _ in range(THREADS // CONNECTIONS)]
        threads = [answer["thread"]["id"] for answer in await asyncio.gather(*starts)]
        owners = [client for client in clients for _ in range(THREADS // CONNECTIONS)]
        took, grown = time.perf_counter() - began, (process.memory_mb - empty) * 1024 / THREADS
        print(f"  {THREADS} threads started: {took:6.2f} s, {empty:6.1f} MB before, {grown:6.1f} KB for each")
        print(f"  {sum(client.refused for client in clients)} requests refused for the time being")
        for number in range(1, rounds + 1):
            began, cpu = time.perf_counter(), process.cpu_ms
            await asyncio.gather(*(owner.run_turn(each) for owner, each in zip(owners, threads, strict=True)))
            took, used = time.perf_counter() - began, (process.cpu_ms - cpu) / THREADS
            grown = (process.memory_mb - empty) * 1024 / THREADS
            print(
                f"  turn {number} of each: {took:6.2f} s, {used:6.2f} CPU ms for each, {grown:6.1f} KB for each thread"
            )


def measure_load(name: str, argv: Sequence[str], rounds: int) -> None:
    """Measure many threads over many connections."""
    print(f"{name}: {THREADS} threads over {CONNECTIONS} connections")
    with model_home(1) as home, Process([*argv, "app-server", "--listen", "ws://127.0.0.1:0"], home) as process:
        for line in process.errors:
            if found := re.search(rb"listening on: (\S+)", line):
                asyncio.run(run_load(process, found[1].decode(), rounds))
                return
        raise SystemExit(f"{name} does not listen")


def count_instructions(argv: Sequence[str], deltas: int, turns: int) -> float:
    """Return the millions of instructions of a server that runs so many turns."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("Install valgrind: nothing else counts instructions on every machine.")
    with model_home(deltas) as home:
        words = [valgrind, "--tool=callgrind", "--quiet", f"--callgrind-out-file={home}/count", *argv, "app-server"]
        with Process(words, home) as process:
            client = StdioClient(process)
            thread_id = client.start_thread()
            for _ in range(turns):
                client.run_turn(thread_id)
        text = (home / "count").read_text()
    found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1e6


def measure_rounds(servers: dict[str, Sequence[str]], rounds: int) -> None:
    """Measure turns and deltas in interleaved rounds."""
    figures: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for deltas, turns, unit in ((1, TURNS, "turn"), (DELTAS, 1, f"{DELTAS:,} deltas")):
            with model_home(deltas) as home:
                words = [sys.executable, __file__, "--api", str(turns)]
                with Process(words, home) as api:
                    costs = {"Python API": json.loads(api.output.readline())}
                costs |= {name: run_turns(argv, home, turns) for name, argv in servers.items()}
            for name, cost in costs.items():
                for what, value in cost.items():
                    title = "start to first answer, ms" if what == "start" else f"{unit}, {what} ms"
                    figures.setdefault(title, {}).setdefault(name, []).append(value)
    columns = ["Python API", *servers]
    print(f"{'':32}" + "".join(f"{name:>16}" for name in columns))
    for title, values in figures.items():
        medians = [statistics.median(values[name]) if name in values else None for name in columns]
        print(f"{title:32}" + "".join(f"{'':>16}" if each is None else f"{each:16.2f}" for each in medians))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codex", default=shutil.which("codex"), help="Codex's program")
    parser.add_argument("--load", type=int, metavar="TURNS", help="200 threads over 20 connections, so many turns each")
    parser.add_argument(
        "--instructions", action="store_true", help="instructions of a turn and of a delta, by valgrind"
    )
    parser.add_argument("--api", type=int, metavar="TURNS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    own = [sys.executable, str(Path(sys.executable).with_name("codex-framework"))]
    servers: dict[str, Sequence[str]] = {"codex-framework": own}
    if options.codex:
        servers["codex"] = [options.codex]
    if options.api:
        print(json.dumps(asyncio.run(run_turns_by_api(options.api))), flush=True)
    elif options.instructions:
        few, many = count_instructions(own, 1, 5), count_instructions(own, 1, 25)
        print(f"a turn: {(many - few) / 20:.3f} M instructions")
        few, many = count_instructions(own, 1, 2), count_instructions(own, DELTAS, 2)
        print(f"a delta: {(many - few) / 2 / DELTAS:.4f} M instructions")
    elif options.load:
        for name, argv in servers.items():
            measure_load(name, argv, options.load)
    else:
        measure_rounds(servers, options.rounds)


if __name__ == "__main__":
    main()
