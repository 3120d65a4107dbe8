from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codex_framework import FunctionCall, Message, OutputText, ThreadMeta
from codex_framework.contract.protocol.events import TurnCompleteEvent, TurnStartedEvent, UnknownEvent, UserMessageEvent
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    ResponseItem,
    user_message,
)
from codex_framework.contract.roles.stores import EventEntry, ItemEntry, ThreadEntry, TurnContextEntry
from codex_plugin_rollout import RolloutStore

META = ThreadMeta(
    id="01a1fa36-db98-75f0-a6d6-2445f13ac227",
    cwd="/w",
    created_at=1795199261.5,
    originator="o",
    source="exec",
    cli_version="1",
    model_provider="p",
)


def turn(number: int) -> list[ThreadEntry]:
    items: list[ResponseItem] = [
        user_message(f"<environment_context>{number}"),
        user_message(f"Frage {number} – ☃ 🦄"),
        FunctionCall("f", '{"a": "\\u2603"}', f"a{number}"),
        CustomToolCall("apply_patch", "*** Begin Patch\n", f"b{number}"),
        LocalShellCall({"type": "exec", "command": ["ls"]}, f"c{number}"),
        FunctionCallOutput(f"a{number}", "ok"),
        CustomToolCallOutput(f"b{number}", "ok"),
        FunctionCallOutput(f"c{number}", "ok"),
        Message("assistant", (OutputText("fertig"),)),
    ]
    return [
        EventEntry(TurnStartedEvent(f"t{number}")),
        TurnContextEntry({"turn_id": f"t{number}"}),
        *map(ItemEntry, items[:2]),
        EventEntry(UserMessageEvent(f"Frage {number}")),
        *map(ItemEntry, items[2:]),
        EventEntry(TurnCompleteEvent(f"t{number}")),
    ]


@cache
def whole() -> tuple[bytes, str]:
    """A file with three turns, one of them undone, and its place in a home."""
    with tempfile.TemporaryDirectory() as home:
        recorder = RolloutStore().create(META, home)
        recorder.append(
            [*turn(1), *turn(2), EventEntry(UnknownEvent({"type": "thread_rolled_back", "num_turns": 1})), *turn(3)]
        )
        recorder.close()
        assert recorder.path
        return Path(recorder.path).read_bytes(), str(Path(recorder.path).relative_to(home))


def is_well_formed(history: tuple[ResponseItem, ...]) -> bool:
    calls = [item.call_id for item in history if isinstance(item, (FunctionCall, CustomToolCall, LocalShellCall))]
    outputs = [item.call_id for item in history if isinstance(item, (FunctionCallOutput, CustomToolCallOutput))]
    return sorted(map(str, calls)) == sorted(outputs)


@given(st.floats(0, 1))
def test_a_file_cut_at_any_byte_loads_and_goes_on(place: float) -> None:
    data, name = whole()
    cut = int(place * len(data))
    store = RolloutStore()
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data[:cut])
        stored = store.load(META.id, home)
        assert is_well_formed(stored.history)
        assert stored.meta.id == META.id
        recorder = store.reopen(stored, home)
        recorder.append([ItemEntry(user_message("weiter"))])
        recorder.close()
        again = store.load(META.id, home)
        assert again.history == (*stored.history, user_message("weiter"))
        assert again.warnings == ()
        assert again.meta.id == META.id
        lines = path.read_bytes().splitlines()
        assert lines[:-1][1:] == data[:cut].splitlines()[: len(lines) - 1][1:], "whole lines stay as they are"


def test_every_cut_within_the_last_lines_loads() -> None:
    data, name = whole()
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / name
        path.parent.mkdir(parents=True)
        for cut in range(len(data) - 600, len(data) + 1):
            path.write_bytes(data[:cut])
            assert is_well_formed(RolloutStore().load(META.id, home).history)
