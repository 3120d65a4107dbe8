"""The memory that it takes to resume a long conversation."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.events import AgentMessageEvent, TurnCompleteEvent
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
)
from codex_framework.contract.protocol.wire import encode_item, packed_item, to_wire
from codex_framework.threads.history import History
from codex_plugin_rollout.store import RolloutStore

WIDE = "a crab 🦀 makes every character of its text wide\n" * 800
THREAD = "01a1fa36-db98-75f0-a6d6-2445f13ac227"
SHORT = "01a1fa36-db98-75f0-a6d6-2445f13ac228"

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""Keeps glibc from raising the size from which blocks are returned to the system. Otherwise the peak depends on where small objects
lie: with some seeds of hashes it is 1.4 times the file's size, and with others 4.6 times."""

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from codex_framework import Kernel
from codex_framework.config import load_config

def memory(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) << 10

async def main(home, short, long):
    environ = {"CODEX_HOME": home, "PATH": os.defpath}
    config = load_config(cwd=Path(home), environ=environ, overrides=('model="m"',))
    async with await Kernel.create(config, environ=environ) as kernel:
        await kernel.resume_thread(short)  # imports what resuming needs, which may have to be compiled
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak is that from now on
        except OSError:  # a kernel without it
            before = memory("VmHWM")
        else:
            before = memory("VmRSS")
        thread = await kernel.resume_thread(long)
        print(memory("VmHWM") - before, len(thread.history))

asyncio.run(main(*sys.argv[1:]))
"""


def line(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps({"timestamp": "2026-11-22T10:00:00.000Z", "type": kind, "payload": payload}, ensure_ascii=False)


def turn(number: int, text: str, place: str) -> list[str]:
    """Return the lines of a turn that has this text in one place."""
    output, prompt, answer, arguments, reasoning = (
        text if place == name else short
        for name, short in (
            ("output", "ok"),
            ("prompt", f"do {number}"),
            ("answer", f"done {number}"),
            ("arguments", "ls"),
            ("reasoning", "x" * 800),
        )
    )
    usage = {"input_tokens": number, "output_tokens": 1, "total_tokens": number}
    call = {
        "name": "exec_command",
        "arguments": json.dumps({"cmd": arguments}, ensure_ascii=False),
        "call_id": f"c{number}",
    }
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
    counts = {"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 1000}
    return [
        line("event_msg", {"type": "task_started", "turn_id": f"t{number}", "model_context_window": 1000}),
        line("response_item", asked),
        line("event_msg", {"type": "user_message", "message": prompt}),
        line("response_item", {"type": "reasoning", "summary": [], "encrypted_content": reasoning}),
        line("response_item", {"type": "function_call", **call}),
        line("response_item", {"type": "function_call_output", "call_id": f"c{number}", "output": output}),
        line("event_msg", {"type": "token_count", "info": counts, "rate_limits": None}),
        line("response_item", said),
        line("event_msg", {"type": "agent_message", "message": answer}),
        line("event_msg", {"type": "task_complete", "turn_id": f"t{number}", "last_agent_message": answer}),
    ]


def session(home: Path, size: int, said: str, place: str, thread: str = THREAD) -> int:
    """Write a session of about so many bytes. Return its size."""
    folder = home / "sessions/2026/11/22"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-2026-11-22T10-00-00-{thread}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        head = {"id": thread, "timestamp": "2026-11-22T10:00:00.000Z", "cwd": "/w", "source": "exec"}
        file.write(line("session_meta", head) + "\n")
        number, written = 0, 0
        while written < size:
            number += 1
            text = "\n".join(turn(number, said, place)) + "\n"
            file.write(text)
            written += len(text.encode())
    return path.stat().st_size


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("size_mib", "text", "place"),
    [
        (16, WIDE, "output"),
        (16, WIDE, "answer"),
        *(
            pytest.param(200, WIDE, place, marks=pytest.mark.thorough)
            for place in ("output", "prompt", "answer", "arguments")
        ),
        pytest.param(200, "x" * 30_000, "reasoning", marks=pytest.mark.thorough),
        pytest.param(200, "plain text\n" * 800, "output", marks=pytest.mark.thorough),
        pytest.param(200, "plain text\n" * 800, "answer", marks=pytest.mark.thorough),
        pytest.param(50, "short é🦀\n" * 9, "output", marks=pytest.mark.thorough),
    ],
)
def test_a_session_takes_at_most_three_times_its_size_to_resume(
    tmp_path: Path, size_mib: int, text: str, place: str
) -> None:
    session(tmp_path, 1, text, place, SHORT)
    size = session(tmp_path, size_mib << 20, text, place)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), SHORT, THREAD]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=200, env={**os.environ, **ALLOCATOR})
    peak, items = map(int, ran.stdout.split())
    assert items > 400
    assert peak <= 3 * size, f"{peak / size:.1f} times its size"


LONG = 'quoted " and 🦀\n' * 1000


@pytest.mark.parametrize(
    "item",
    [
        FunctionCallOutput("c", LONG, id="i", extra={"more": 1}),
        FunctionCallOutput("c", (InputText(LONG),)),
        CustomToolCallOutput("c", LONG, id="i"),
        FunctionCall("f", LONG, "c", namespace="n", extra={"more": 1}),
        CustomToolCall("f", LONG, "c", status="completed"),
        Message("user", (InputText("short"), InputText(LONG)), id="i"),
        Message("assistant", (OutputText(LONG, extra={"annotations": []}),), phase="final_answer"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_a_packed_item_is_the_same_item(item: Any) -> None:
    packed = packed_item(item)
    for name in item.long_fields:
        assert name not in packed.__dict__
        assert getattr(packed, name) == getattr(item, name)
    assert (packed, repr(packed), hash(packed.type)) == (item, repr(item), hash(item.type))
    assert (encode_item(packed), to_wire(packed)) == (encode_item(item), to_wire(item))
    assert packed.evolve(id="d") == item.evolve(id="d")
    assert packed_item(packed) is packed
    assert copy.deepcopy(packed) == pickle.loads(pickle.dumps(packed)) == item
    with pytest.raises(AttributeError, match="no attribute 'outptu'"):
        packed.outptu  # noqa: B018
    assert History([packed]).tokens == History([item]).tokens


def test_a_packed_item_matches_a_pattern() -> None:
    match packed_item(CustomToolCallOutput("c", LONG)):
        case FunctionCallOutput(call_id="c", output=str(found)) | CustomToolCallOutput(call_id="c", output=str(found)):
            assert found == LONG
        case _:
            pytest.fail("it does not match")


def test_the_newest_text_is_found_in_packed_messages() -> None:
    start = '<note "é🦀">'
    messages = [Message("user", (InputText(text), InputText(LONG))) for text in (f"{start} old", f"{start} new", LONG)]
    assert History(map(packed_item, messages)).last_with(start) == f"{start} new"
    assert History(map(packed_item, messages)).last_with("<no") == f"{start} new"
    assert History(map(packed_item, messages)).last_with("note") is None


def test_messages_without_wide_characters_stay_as_they_are() -> None:
    for text in ("plain " * 1000, "café " * 1000):
        item = Message("user", (InputText(text),))
        assert packed_item(item) is item
    item = Message("user", (InputText(LONG), InputImage("data:image/png;base64,AA")))
    assert packed_item(item) is item


@pytest.mark.parametrize("kind", [Message, FunctionCall, CustomToolCall, FunctionCallOutput, CustomToolCallOutput])
def test_no_default_hides_a_packed_field(kind: Any) -> None:
    assert not any(hasattr(kind, name) for name in kind.long_fields)


def test_events_of_a_record_are_the_same_with_packed_texts(tmp_path: Path) -> None:
    session(tmp_path, 1, LONG, "answer")
    stored = RolloutStore().load(THREAD, str(tmp_path))
    said = next(event for event in stored.events if isinstance(event, AgentMessageEvent))
    end = stored.events[-1]
    assert isinstance(end, TurnCompleteEvent)
    assert (said, end.last_agent_message) == (AgentMessageEvent(LONG), LONG)
    assert to_wire(said) == to_wire(AgentMessageEvent(LONG))
    assert to_wire(end) == to_wire(end.evolve(last_agent_message=LONG))
    assert "message" not in said.__dict__
    assert "last_agent_message" not in end.__dict__
    with pytest.raises(AttributeError, match="no attribute 'mesage'"):
        said.mesage  # type: ignore[attr-defined]  # noqa: B018


def test_a_short_output_and_content_parts_stay_as_they_are() -> None:
    for item in (FunctionCallOutput("c", "short"), FunctionCallOutput("c", ())):
        assert packed_item(item) is item
