"""What the kernel itself costs, in one process: turns, deltas, commands, threads, memory.

    python benchmarks/kernel.py [--rounds 5]

Everything runs against a loopback server (or, for the cost of the kernel alone, a scripted model), interleaved with the bare
costs of the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from codex_framework import Kernel, ProviderInfo, hookimpl
from codex_framework.config import load_config
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, say
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer


class Offers:
    """Offers a scripted model as provider kind ``scripted``."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @hookimpl
    def codex_model_providers(self) -> list[ScriptedModel]:
        return [self._model]


async def kernel(home: Path, plugins: Sequence[object] = (), *overrides: str) -> Kernel:
    environ = {"CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    config = load_config(cwd=home, environ=environ, overrides=['approval_policy="never"', *overrides])
    return await Kernel.create(config, environ=environ, plugins=plugins)


async def scripted_turns(home: Path, replies: list[Reply]) -> float:
    """Milliseconds of one turn of so many samples, with the model in process."""
    model = ScriptedModel(replies)
    overrides = ('model_provider="scripted"', 'sandbox_mode="danger-full-access"', 'model="gpt-5.5"')
    async with await kernel(home, [Offers(model)], *overrides) as made:
        thread = await made.start_thread()
        began = time.perf_counter()
        await thread.run("go")
        return (time.perf_counter() - began) * 1000


async def threads_at_once(home: Path, count: int) -> tuple[float, float]:
    """Seconds and megabytes for so many threads with two samples each, all at once, over HTTP."""
    replies: list[Reply] = [call("update_plan", plan=[{"step": "x", "status": "pending"}])]
    with ResponsesServer([*replies * count, *[say("done")] * count]) as server:
        provider = ProviderInfo(id="bench", base_url=server.url)
        async with await kernel(home, (), 'sandbox_mode="danger-full-access"', 'model="gpt-5.5"') as made:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            began = time.perf_counter()
            threads = [await made.start_thread(provider=provider) for _ in range(count)]
            results = await asyncio.gather(*(thread.run("go") for thread in threads))
            took = time.perf_counter() - began
            failed = [result.error for result in results if result.error]
            if failed:
                raise SystemExit(f"{len(failed)} of {count} threads failed: {failed[0]}")
            return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", default=[200, 1000])
    options = parser.parse_args()
    figures: dict[str, list[float]] = {}

    def note(what: str, value: float) -> None:
        figures.setdefault(what, []).append(value)

    nothing = call("write_stdin", session_id=1, chars="x")
    true = call("exec_command", cmd="true", login=False)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        for _ in range(options.rounds):
            began = time.perf_counter()
            subprocess.run(["/bin/true"], check=True)
            note("bare spawn of /bin/true (ms)", (time.perf_counter() - began) * 1000)
            note(
                "kernel per turn, no process (ms)",
                asyncio.run(scripted_turns(home, [nothing] * 200 + [say("x")])) / 200,
            )
            note("kernel per turn, `true` (ms)", asyncio.run(scripted_turns(home, [true] * 100 + [say("x")])) / 100)
            many = say("0123456789" * 20_000).evolve(deltas=20_000)
            note("kernel, 20,000 deltas (ms)", asyncio.run(scripted_turns(home, [many])))
        for count in options.threads:
            seconds, megabytes = asyncio.run(threads_at_once(home, count))
            note(f"{count} threads at once, 2 samples each (s)", seconds)
            note(f"{count} threads at once, memory added (MB)", megabytes)
    for what, values in figures.items():
        print(f"{what:48} {statistics.median(values):10.3f}")


if __name__ == "__main__":
    main()
