"""Sessions that this framework and the real Codex wrote, and the usage of a running thread."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import codex_plugin_compaction
import codex_plugin_rollout
from codex_framework import Agent, Event, Kernel, ModelPrices, ToolContext, ToolError, tool
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import TokenCountEvent, TokenUsageInfo
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.testing import Offer, ResponsesServer
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, say
from codex_plugin_usage.folders import file_at
from codex_plugin_usage.meter import Meter
from codex_plugin_usage.prices import known_prices
from codex_plugin_usage.scan import scan

from .conftest import tokens_by_key

DEFAULT = (100, 10, 20, 5)
"""Input, cached input, output and reasoning of a scripted reply."""


def times(number: int) -> tuple[int, ...]:
    return tuple(number * part for part in DEFAULT)


@tool
async def look(what: str) -> str:
    """Look."""
    if what == "nothing":
        raise ToolError("there is nothing")
    return what * 10


async def opened(home: Path, *replies: Any, config: str = "") -> tuple[Kernel, ScriptedModel]:
    model = ScriptedModel([*replies])
    environ = {"CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    overrides = ('model_provider="scripted"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"')
    settings = load_config(cwd=home, environ=environ, overrides=(*overrides, *filter(None, [config])))
    plugins = (
        codex_plugin_rollout,
        codex_plugin_compaction,
        Offer(name="seeing", providers=[model], tools=[look, delegate]),
    )
    return await Kernel.create(settings, environ=environ, entry_points=(), plugins=plugins), model


@tool
async def delegate(context: ToolContext) -> str:
    """Let a child with a copy of the history look."""
    child = await context.spawn(Agent(name="helper"), fork=9)
    return (await child.run("and you")).final_message or ""


def test_a_thread_its_resumption_and_its_child_count_once(home: Path) -> None:
    async def scenario() -> str:
        kernel, _ = await opened(home, call("look", what="hill"), say("A hill."), say("Again."))
        async with kernel:
            thread = await kernel.start_thread()
            await thread.run("look")
            await thread.run("again")
            name = thread.id
        child = call("look", what="nothing"), say("From the child.")
        async with (await opened(home, call("delegate"), *child, say("Back.")))[0] as kernel:
            thread = await kernel.resume_thread(name)
            assert (await thread.run("go on")).final_message == "Back."
            return name

    name = asyncio.run(scenario())
    (child,) = scan(home).sessions - {name}
    report = scan(home)
    assert tokens_by_key(report) == {name: 5 * 120, child: 2 * 120}
    amounts = report.total.amounts
    assert (amounts.input, amounts.cached_input, amounts.output, amounts.reasoning) == times(7)
    assert tokens_by_key(scan(home, sessions=[name])) == {name: 5 * 120, child: 2 * 120}
    assert tokens_by_key(scan(home, sessions=[child])) == {child: 2 * 120}
    row = next(row for row in scan(home, by="tool").as_json()["rows"] if row["key"] == "look")
    assert (row["calls"], row["unfinished"], row["sessions"]) == (2, 0, 2)
    assert row["estimated_output_tokens"] == 10 + 4


def test_a_compaction_counts_with_its_own_response(home: Path) -> None:
    async def scenario() -> None:
        kernel, model = await opened(home, say("One."), say("Summary."), say("Two."))
        async with kernel:
            thread = await kernel.start_thread()
            await thread.run("one")
            await thread.submit(kernel.op("compact"))
            await thread.settled()
            await thread.run("two")
            assert len(model.requests) == 3

    asyncio.run(scenario())
    amounts = scan(home).total.amounts
    assert (amounts.input, amounts.cached_input, amounts.output, amounts.reasoning) == times(3)


def test_a_meter_counts_what_a_running_thread_uses(home: Path) -> None:
    price = known_prices({"scripted/gpt-5.5": ModelPrices(input=2, output=8, cached_input=0)})

    async def scenario() -> tuple[Meter, Meter]:
        kernel, _ = await opened(home, call("look", what="hill"), say("A hill."), say("Again."))
        first, second = Meter("gpt-5.5", "scripted", price), Meter()
        async with kernel:
            thread = await kernel.start_thread()
            taken = [first.take(event) for event in (await thread.run("look")).events]
            assert taken.count(True) == 2
            name = thread.id
        async with (await opened(home, say("Back.")))[0] as kernel:
            thread = await kernel.resume_thread(name)
            for event in (await thread.run("go on")).events:
                second.take(Event("id", event))
        return first, second

    first, second = asyncio.run(scenario())
    assert first.amounts.values == (200, 20, 0, 40, 10)
    assert first.cost == {"USD": pytest.approx((180 * 2 + 40 * 8) / 1e6)}
    assert second.amounts.values == (100, 10, 0, 20, 5)
    assert second.cost is None


def test_a_meter_does_not_count_repetitions() -> None:
    used = TokenUsage(100, 40, 10, 4, 110)
    meter = Meter()
    event = TokenCountEvent(TokenUsageInfo(used, used))
    assert [meter.take(event), meter.take(event), meter.take(TokenCountEvent())] == [True, False, False]
    assert meter.amounts.total == 110


def test_every_recorded_session_has_the_sum_that_codex_counted(home: Path, anchors: Path) -> None:
    for path in sorted((anchors / "rollouts").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        sums = [line["payload"]["thread_token_usage"] for line in lines if line["type"] == "token_usage_record"]
        expected = sums[-1] if sums else {}
        file = file_at(path)
        assert file is not None
        tokens = scan(home, sessions=[file]).as_json()["total"]["tokens"]
        for ours, theirs in (
            ("input", "input_tokens"),
            ("cached_input", "cached_input_tokens"),
            ("cache_write_input", "cache_write_input_tokens"),
            ("output", "output_tokens"),
            ("reasoning_output", "reasoning_output_tokens"),
            ("total", "total_tokens"),
        ):
            assert tokens[ours] == expected.get(theirs, 0), (path.name, ours)


def test_codex_says_the_same_of_its_own_session(tmp_path: Path, codex_binary: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(tmp_path), "CODEX_HOME": str(home), "PATH": os.environ["PATH"]}
    options = ["--skip-git-repo-check", "--json", "-c", "model_provider=mock", "-m", "gpt-5.5"]
    with ResponsesServer([call("exec_command", cmd="exit 3"), say("One."), say("Two.")]) as server:
        provider = f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses"}}'
        for words in (["one"], ["resume", "--last", "two"]):
            argv = [codex_binary, "exec", *options, "-c", provider, *words]
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                env=environ,
                cwd=tmp_path,
                timeout=120,
                stdin=subprocess.DEVNULL,
                check=True,
            )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    usage = next(event["usage"] for event in said if event["type"] == "turn.completed")
    report = scan(home)
    tokens = report.as_json()["total"]["tokens"]
    assert report.total.responses == 3
    assert (tokens["input"], tokens["cached_input"], tokens["output"], tokens["reasoning_output"]) == (
        usage["input_tokens"],
        usage["cached_input_tokens"],
        usage["output_tokens"],
        usage["reasoning_output_tokens"],
    )
    (row,) = scan(home, by="tool").as_json()["rows"]
    assert (row["key"], row["calls"], row["failures"]) == ("exec_command", 1, 1)


@pytest.mark.slow
def test_ten_thousand_sessions_are_read_in_bounded_memory(session: Any, home: Path) -> None:
    import tracemalloc

    from .conftest import counted, encoded, turn

    filler = encoded(("response_item", {"type": "message", "content": [{"type": "input_text", "text": "x" * 4000}]}))
    for number in range(10_000):
        thread = f"01a1fa36-db98-75f0-a6d6-{number:012x}"
        session(
            filler,
            *turn(),
            filler,
            counted((100, 0, 10), (100, 0, 10)),
            thread=thread,
            day=f"2026/{number % 12 + 1:02}/01",
        )
    tracemalloc.start()
    try:
        report = scan(home, by="day")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(report.sessions), report.total.amounts.total) == (10_000, 1_100_000)
    assert peak < 20 << 20
