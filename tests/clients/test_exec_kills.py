"""SIGKILL at any time: every announced thread can be resumed, with nothing torn, lost or done twice, and no process is left."""

from __future__ import annotations

import json
import os
import random
import select
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, say
from codex_framework.testing.scripted import Reply

STEPS = 3
MARK = f"61.{os.getpid():08}"
"""How long a child of each step would sleep if the step did not end it: an argument that no other process has."""

SURVIVAL_S = 15.0
"""How long a process may take to end after its kernel was killed, on a busy machine."""

KILLS_PER_THREAD = 5


def next_step(request: Any) -> Reply:
    """The model goes through the steps, of which each appends its number to a file. It sees from the request where it is."""
    items = request.json["input"]
    asked = max(place for place, item in enumerate(items) if item.get("role") == "user")
    done = sum(item["type"] == "function_call_output" for item in items[asked:])
    number = sum(item["type"] == "function_call" for item in items)
    if done >= STEPS:
        return say("All done.")
    script = f"echo {number} >> steps; sleep {MARK} >/dev/null 2>&1 & sleep 0.15; kill $!"
    return call("exec_command", cmd=script, login=False, call_id=f"step-{number}")


def check_that_no_process_is_left() -> None:
    """What the killed kernel had started ends by itself."""
    end = time.monotonic() + SURVIVAL_S
    while left := [
        path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if MARK.encode() in content_of(path)
    ]:
        assert time.monotonic() < end, f"processes are left: {left}"
        time.sleep(0.02)


def content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def announced(process: Any, life_s: float) -> str | None:
    """Let it live so long, kill it, and return the thread id if it was announced."""
    end = time.monotonic() + life_s
    said = b""
    while (left := end - time.monotonic()) > 0 and select.select([process.stdout], [], [], left)[0]:
        more = process.stdout.read1(65_536)
        if not more:
            break
        said += more
    process.kill()
    said += process.communicate()[0]
    whole = said[: said.rfind(b"\n") + 1].splitlines()
    events = [json.loads(line) for line in whole]
    return events[0]["thread_id"] if events else None


def check_record(path: Path, prompts: list[str]) -> None:
    """The file is whole but for its last line, and has every announced prompt once and every call at most once."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    payloads = [json.loads(line)["payload"] for line in data.splitlines()]
    calls = [payload["call_id"] for payload in payloads if payload.get("type") == "function_call"]
    outputs = [payload["call_id"] for payload in payloads if payload.get("type") == "function_call_output"]
    assert len(calls) == len(set(calls)), "a call stands twice"
    assert len(outputs) == len(set(outputs)), "an output stands twice"
    assert set(outputs) <= set(calls)
    said = [payload["message"] for payload in payloads if payload.get("type") == "user_message"]
    assert [prompt for prompt in said if prompt in prompts] == prompts, "a prompt is lost, or stands twice"


def kill_and_resume(cli: Any, seed: int) -> int:
    """Kill one thread a few times and let it end. Return the number of kills."""
    chance = random.Random(seed)
    for old in [*cli.rollouts(), cli.work / "steps"]:
        old.unlink(missing_ok=True)
    thread_id: str | None = None
    prompts: list[str] = []
    kills = 0
    while kills < KILLS_PER_THREAD:
        prompt = f"prompt {kills}"
        words = ["exec", "--json", "-s", "danger-full-access"]
        words += ["resume", thread_id, prompt] if thread_id else [prompt]
        found = announced(cli.start(*words), chance.uniform(0.1, 0.9))
        kills += 1
        check_that_no_process_is_left()
        if found is not None:
            assert thread_id in (None, found)
            thread_id = found
            prompts.append(prompt)
    if thread_id is None:
        return kills
    ran = cli.json("-s", "danger-full-access", "resume", thread_id, "the end")
    check_that_no_process_is_left()
    assert (ran.status, ran.items("agent_message")[-1]["text"]) == (0, "All done."), ran.err
    assert "unreadable" not in ran.err
    # A run that was killed before it could announce its thread leaves the file of that thread too.
    (path,) = (path for path in cli.rollouts() if thread_id in path.name)
    check_record(path, [*prompts, "the end"])
    sent = cli.servers[-1].requests[-1].json["input"]
    calls = [item["call_id"] for item in sent if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in sent if item["type"] == "function_call_output"]
    assert sorted(calls) == sorted(outputs)
    steps = (cli.work / "steps").read_text().split()
    assert len(steps) == len(set(steps)), "a step was done twice"
    return kills


@pytest.mark.parametrize(
    "seeds",
    [range(1), *(pytest.param(range(first, first + 10), marks=pytest.mark.thorough) for first in range(1, 61, 10))],
    ids=lambda seeds: f"{len(seeds) * KILLS_PER_THREAD} kills from {seeds[0]}",
)
def test_every_announced_thread_is_resumed_whole(cli: Any, seeds: range) -> None:
    cli.serve(next_step, repeat_last=True)
    assert sum(kill_and_resume(cli, seed) for seed in seeds) == len(seeds) * KILLS_PER_THREAD
