"""A session with everything in it is cut after each line and within it, as by a kill, and goes on."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ResponseItem
from codex_framework.contract.protocol.items import is_call, is_output, message_text, user_message
from codex_framework.contract.roles.stores import ItemEntry
from codex_framework.testing import Reply, ScriptedModel, call, say
from codex_framework.testing.kernels import KernelFactory
from codex_plugin_review.ops import Review, ReviewRequest
from codex_plugin_rollout import RolloutStore

STRIDE = 53
"""The cuts of the fast form: one of so many."""


def answer(request: Any) -> Reply:
    """Do what the newest words of the conversation say."""
    last = [item for item in request.prompt.items if is_output(item) or getattr(item, "role", "") == "user"][-1]
    if is_output(last):
        if last.call_id != "spawn":
            return say("done ☃ 🦄")
        return call("wait_agent", targets=[json.loads(last.output)["agent_id"]], call_id="wait")
    words = message_text(last)
    if words.startswith("Run"):
        return call("exec_command", cmd="echo hi", login=False, call_id="run") + call(
            "update_plan", plan=[], call_id="plan"
        )
    if words.startswith("Ask"):
        return call("spawn_agent", message="Look.", call_id="spawn")
    return say("ok")


async def _lived(kernels: KernelFactory) -> None:
    async with kernels.around(ScriptedModel([answer] * 60)) as kernel:
        thread = await kernel.start_thread()

        async def did(op: Any) -> None:
            await thread.submit(op)
            await thread.settled()

        await thread.run("Run it.")
        await thread.run("Ask an agent.")
        await did(kernel.op("compact"))
        await thread.run("Run it again.")
        await did(Review(ReviewRequest(target={"type": "custom", "instructions": "Look at it."})))
        await thread.run("Ask another agent.")
        await did(kernel.op("thread_rollback", num_turns=1))
        await did(kernel.op("set_thread_memory_mode", mode="disabled"))
        await thread.run("Run it once more.")
        fork = await kernel.resume_thread(kernel.fork_thread(thread.id))
        await fork.run("Run it in the fork.")


def _files(home: Path) -> list[Path]:
    return sorted((home / "sessions").rglob("*.jsonl"), key=lambda path: path.stat().st_size)


def _numbered(path: Path) -> None:
    """Give a file the form of newer versions."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["payload"]["history_mode"] = "paginated"
    text = (json.dumps({"timestamp": line.pop("timestamp"), "ordinal": n, **line}) for n, line in enumerate(lines))
    path.write_text("".join(f"{line}\n" for line in text))


def _cuts(data: bytes, stride: int) -> Sequence[int]:
    """Return the places after and within lines, without those within the first one."""
    ends = [0]
    for line in data.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    within = [(start + end) // 2 for start, end in itertools.pairwise(ends[1:])]
    return sorted({*ends[1:], *within, *(end - 1 for end in ends[2:])})[::stride]


def _unpaired(history: Sequence[ResponseItem]) -> Iterator[str]:
    waiting: Counter[str | None] = Counter()
    for item in history:
        if is_call(item):
            waiting[item.call_id] += 1  # type: ignore[union-attr]
        elif is_output(item):
            waiting[item.call_id] -= 1  # type: ignore[union-attr]
            if waiting[item.call_id] < 0:  # type: ignore[union-attr]
                yield "an output before its call"
    yield from (f"no output for {call_id}" for call_id, count in waiting.items() if count > 0)


def _check_cut(store: RolloutStore, path: Path, home: str, data: bytes) -> None:
    """Check that a cut file loads, goes on, and is repaired to the same conversation."""
    path.write_bytes(data)
    stored = store.load(str(path), home)
    assert list(_unpaired(stored.history)) == []
    recorder = store.reopen(stored, home)
    recorder.append([ItemEntry(user_message("Go on."))])
    recorder.close()
    again = store.load(str(path), home)
    assert again.history == (*stored.history, user_message("Go on."))
    assert list(store.check(home, str(path))) == []
    path.write_bytes(data)
    assert bool(list(store.check(home, str(path)))) is not data.endswith(b"\n")
    list(store.repair(str(path), home))
    repaired = store.load(str(path), home)
    assert (repaired.history, repaired.turns, repaired.warnings) == (stored.history, stored.turns, ())
    assert repaired.meta == stored.meta
    for damaged in path.parent.glob("*damaged*"):
        damaged.unlink()


@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_cut_loads_goes_on_and_can_be_repaired(make_kernel: KernelFactory, codex_home: Path, stride: int) -> None:
    asyncio.run(_lived(make_kernel))
    files = _files(codex_home)
    assert len(files) == 5, "two agents, a review, the thread and its fork"
    store = RolloutStore()
    for path, number in ((path, number) for number in (False, True) for path in files):
        if number:
            _numbered(path)
        data = path.read_bytes()
        for cut in _cuts(data, stride):
            _check_cut(store, path, str(codex_home), data[:cut])
        path.write_bytes(data)


@pytest.mark.parametrize("stride", [2 * STRIDE, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_cut_can_be_resumed(make_kernel: KernelFactory, codex_home: Path, stride: int) -> None:
    asyncio.run(_lived(make_kernel))
    model = ScriptedModel([lambda _: say("ok")] * 10_000)

    async def main() -> None:
        async with make_kernel.around(model) as kernel:
            for path in _files(codex_home):
                data = path.read_bytes()
                for cut in _cuts(data, stride):
                    path.write_bytes(data[:cut])
                    thread = await kernel.resume_thread(str(path))
                    result = await thread.run("Go on.")
                    assert result.final_message == "ok"
                    assert list(_unpaired(model.requests[-1].prompt.items)) == []
                    live = tuple(thread.history.items)
                    for each in list(kernel.threads.values()):
                        await each.shutdown()
                    assert RolloutStore().load(str(path), str(codex_home)).history == live
                path.write_bytes(data)

    asyncio.run(main())
