"""The jobs that ``threads.py`` runs in the Python of each installation. Only names that all versions share are imported here."""

from __future__ import annotations

import argparse
import asyncio
import collections
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from codex_framework import Kernel, hookimpl
from codex_framework.config import load_config
from codex_framework.testing import ScriptedModel, say


def reply_to(request: Any) -> Any:
    """Encode the prompt, as a client has to, and answer."""
    request.prompt.encoded()
    return say("done")


class Model:
    """Offers the scripted model."""

    def __init__(self) -> None:
        self.model = ScriptedModel([reply_to], repeat_last=True)

    @hookimpl
    def codex_model_providers(self) -> list[Any]:
        return [self.model]


def idle_plugin(number: int, kind: str) -> object:
    """Return a plugin that offers an empty part of threads, a silent context source, and an interceptor that changes nothing.

    Args:
        kind: The interceptor: ``empty`` has no methods, ``request`` returns its input.
    """
    from codex_framework import Component, ContextSource, Interceptor, ThreadComponent

    class Idle(Component):
        name = f"idle-{number}"

        def for_thread(self, thread: Any) -> ThreadComponent:  # noqa: ARG002
            return ThreadComponent()

    class Silent(ContextSource):
        name = f"silent-{number}"

        def fragments(self, turn: Any) -> Any:  # noqa: ARG002
            return ()

    class Passive(Interceptor):
        name = f"passive-{number}"

    class PassesRequests(Passive):
        async def request(self, request: Any, context: Any) -> Any:  # noqa: ARG002
            return request

    class Plugin:
        __name__ = f"idle_{number}"

        @hookimpl
        def codex_components(self) -> list[Any]:
            return [Idle()]

        @hookimpl
        def codex_context_sources(self) -> list[Any]:
            return [Silent()]

        @hookimpl
        def codex_interceptors(self) -> list[Any]:
            return [Passive() if kind == "empty" else PassesRequests()]

    return Plugin()


async def create_kernel(home: Path, options: argparse.Namespace, model: Model | None = None) -> Kernel:
    environ = {"CODEX_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    overrides = [
        'approval_policy="never"',
        'sandbox_mode="danger-full-access"',
        'model="gpt-5.5"',
        'model_provider="scripted"',
    ]
    if options.without:
        overrides.append(f"framework.plugins.disabled={json.dumps(options.without)}")
    plugins = [model or Model(), *(idle_plugin(number, options.kind) for number in range(options.plugins))]
    config = load_config(cwd=home, environ=environ, overrides=overrides)
    kernel = await Kernel.create(config, environ=environ, plugins=plugins)
    failed = kernel.registry.warnings
    if failed:
        raise SystemExit(f"plugins failed: {failed}")
    return kernel


async def run_turn(thread: Any) -> None:
    result = await thread.run("go")
    if result.error:
        raise SystemExit(f"a turn failed: {result.error}")


def mark() -> None:
    """End a part of the job. Callgrind writes its counter at each call of the C function ``getpriority``, which nothing else calls."""
    os.getpriority(os.PRIO_PROCESS, 0)
    gc.collect()
    os.getpriority(os.PRIO_PROCESS, 0)


async def warm_up(kernel: Kernel) -> None:
    """Run so many turns that what a kernel does once for all threads is done: the initialiser of a class is written after 32 uses."""
    for _ in range(12):
        thread = await kernel.start_thread()
        for _ in range(3):
            await run_turn(thread)


async def count(home: Path, options: argparse.Namespace) -> None:
    """Pass marks: kernel, warm-up, start of threads, first turns, further turns."""
    mark()
    async with await create_kernel(home, options) as kernel:
        mark()
        await warm_up(kernel)
        mark()
        threads = [await kernel.start_thread() for _ in range(options.threads)]
        mark()
        for thread in threads:
            await run_turn(thread)
        mark()
        for _ in range(options.turns):
            for thread in threads:
                await run_turn(thread)
        mark()


async def long_thread(home: Path, options: argparse.Namespace) -> None:
    """Pass marks before and after the turns 100 to 120 and 3,000 to 3,020 of one thread."""
    model = Model()
    async with await create_kernel(home, options, model) as kernel:
        thread = await kernel.start_thread()
        for turn in range(3020):
            if turn in {99, 119, 2999}:
                mark()
            await run_turn(thread)
            model.model.requests.clear()  # a garbage collection within the marks would look at all of them
        mark()


async def memory(home: Path, options: argparse.Namespace) -> None:
    """Print the bytes of an idle thread and of a thread after one turn, with many at once."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def measure() -> int:
        gc.collect()
        return resident() if options.resident else tracemalloc.get_traced_memory()[0]

    model = Model()
    async with await create_kernel(home, options, model) as kernel:
        for _ in range(20):
            await run_turn(await kernel.start_thread())
        if not options.resident:
            tracemalloc.start()
        before = measure()
        threads = [await kernel.start_thread() for _ in range(options.threads)]
        idle = measure()
        await asyncio.gather(*(run_turn(thread) for thread in threads))
        model.model.requests.clear()
        used = measure()
    print(json.dumps([(idle - before) / options.threads, (used - before) / options.threads]))


async def wall(home: Path, options: argparse.Namespace) -> None:
    """Print the median milliseconds of a further turn."""
    async with await create_kernel(home, options) as kernel:
        thread = await kernel.start_thread()
        times = []
        for _ in range(options.turns):
            began = time.perf_counter()
            await run_turn(thread)
            times.append(time.perf_counter() - began)
    print(json.dumps(statistics.median(times[5:]) * 1000))


async def names(home: Path, options: argparse.Namespace) -> None:
    """Print the names of the bundled plugins."""
    async with await create_kernel(home, options) as kernel:
        print(
            json.dumps(
                sorted({report.name for report in kernel.registry.reports if report.status == "loaded"} - {"Model"})
            )
        )


class Steps:
    """Counts the bytecode instructions of each function, with and without the instructions of the functions that it calls.

    A step does not depend on the machine, unlike a time. The work inside a C function counts as the one step that calls it.
    """

    def __init__(self) -> None:
        self.own: collections.Counter[CodeType] = collections.Counter()
        self.total: collections.Counter[CodeType] = collections.Counter()
        self.calls: collections.Counter[CodeType] = collections.Counter()
        self._now = 0
        self._stack: list[tuple[CodeType, int]] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG002
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.calls[frame.f_code] += 1
        self._stack.append((frame.f_code, self._now))
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG002
        if event == "opcode":
            self._now += 1
            self.own[frame.f_code] += 1
        elif event == "return" and self._stack:
            code, began = self._stack.pop()
            if all(other is not code for other, _ in self._stack):
                self.total[code] += self._now - began
        return self._step


async def functions(home: Path, options: argparse.Namespace) -> None:
    """Print the functions of a start, a first or a further turn by their bytecode instructions."""
    steps = Steps()
    async with await create_kernel(home, options) as kernel:
        await warm_up(kernel)
        for _ in range(10):
            if options.part == "start":
                with steps.counting():
                    thread = await kernel.start_thread()
                continue
            thread = await kernel.start_thread()
            if options.part == "further":
                await run_turn(thread)
            with steps.counting():
                await asyncio.create_task(run_turn(thread))
    print(f"bytecode instructions in a {options.part}: {sum(steps.own.values()) / 10:.0f}")
    rooms: collections.Counter[str] = collections.Counter()
    for code, own in steps.own.items():
        rooms[_room(code)] += own
    for room, own in rooms.most_common(25):
        print(f"{own / 10:10.0f}  {room}")
    for title, ranking in (("with what it calls", steps.total), ("by itself", steps.own)):
        print(f"\n{title:>18} {'by itself':>10} {'calls':>8}")
        for code, steps_of in ranking.most_common(options.top):
            where = f"{_place(code.co_filename)}:{code.co_firstlineno} {code.co_qualname}"
            print(f"{steps_of / 10:18.0f} {steps.own[code] / 10:10.0f} {steps.calls[code] / 10:8.1f}  {where}")


def _place(path: str) -> str:
    for folder in ("/plugins/codex_", "/codex_framework/", "/site-packages/", "/lib/python3"):
        if folder in path:
            head = folder.rstrip("/").rpartition("/")[2] if folder != "/lib/python3" else ""
            tail = path.rpartition(folder)[2]
            return (
                f"{head}{tail}"
                if folder == "/plugins/codex_"
                else f"{head}/{tail}".lstrip("/").removeprefix("site-packages/")
            )
    return path


def _room(code: CodeType) -> str:
    return "/".join(_place(code.co_filename).split("/")[:-1]) or "(other)"


def main() -> None:
    jobs = {job.__name__: job for job in (count, long_thread, memory, wall, names, functions)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=jobs)
    parser.add_argument("--threads", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--plugins", type=int, default=0)
    parser.add_argument("--kind", choices=("empty", "request"), default="empty")
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--resident", action="store_true")
    parser.add_argument("--part", choices=("start", "first", "further"), default="further")
    parser.add_argument("--top", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(jobs[options.job](Path(home), options))


if __name__ == "__main__":
    main()
