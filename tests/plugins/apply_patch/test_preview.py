from __future__ import annotations

from codex_framework.contract.protocol.events.command import AddFile, DeleteFile, PatchApplyUpdatedEvent, UpdateFile
from codex_plugin_apply_patch.grammar import Chunk, DeleteHunk, UpdateHunk
from codex_plugin_apply_patch.preview import StreamedPatch
from codex_plugin_apply_patch.tool import ApplyPatch

BEGUN = "*** Begin Patch\n*** Add File: a\n+one\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_preview_shows_whole_lines_at_most_twice_a_second() -> None:
    clock = Clock()
    tool = ApplyPatch(clock)
    assert tool.preview("c", "*** Begin Patch\n*** Add") is None
    assert tool.preview("c", BEGUN + "+tw") == PatchApplyUpdatedEvent(call_id="c", changes={"a": AddFile("one\n")})
    clock.now = 0.4
    assert tool.preview("c", BEGUN + "+two\n") is None
    clock.now = 0.5
    assert tool.preview("c", BEGUN + "+two\n+thr") == PatchApplyUpdatedEvent(
        call_id="c", changes={"a": AddFile("one\ntwo\n")}
    )
    clock.now = 2.0
    assert tool.preview("c", BEGUN + "+two\n+three") is None


def test_each_call_has_a_preview_of_its_own() -> None:
    tool = ApplyPatch(Clock())
    assert tool.preview("one", BEGUN) is not None
    assert tool.preview("two", BEGUN) is not None


def test_every_kind_of_change_is_previewed() -> None:
    text = (
        "*** Begin Patch\n*** Delete File: d\n*** Update File: u\n*** Move to: v\n@@ def f():\n-a\n+b\n"
        "@@\n+c\n*** Add File: n\n"
    )
    event = ApplyPatch(Clock()).preview("c", text)
    assert event is not None
    assert event.changes == {
        "d": DeleteFile(""),
        "u": UpdateFile("@@ def f():\n-a\n+b\n@@\n+c\n", "v"),
        "n": AddFile(""),
    }


def test_many_open_previews_take_bounded_memory_and_stay_right() -> None:
    clock = Clock()
    tool = ApplyPatch(clock)
    for number in range(200):
        assert tool.preview(f"call {number}", BEGUN) is not None
    clock.now = 1.0
    event = tool.preview("call 0", BEGUN + "+two\n")
    assert event == PatchApplyUpdatedEvent(call_id="call 0", changes={"a": AddFile("one\ntwo\n")})


def test_a_fault_ends_the_reading_and_keeps_what_was_right() -> None:
    patch = StreamedPatch()
    patch.push("*** Begin Patch\n*** Delete File: a\nnonsense\n*** Delete File: b\n")
    assert patch.hunks == (DeleteHunk("a"),)
    assert patch.fault is not None
    assert patch.fault.line == 3


def test_a_hunk_that_is_being_written_is_shown_as_far_as_it_is() -> None:
    patch = StreamedPatch()
    patch.push("<<'EOF'\n\n*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-x\r\n+")
    assert patch.hunks == (UpdateHunk("a", None, (Chunk(None, (("-", "x"),)),)),)
    patch.finish()
    assert patch.hunks == (UpdateHunk("a", None, (Chunk(None, (("-", "x"), ("+", ""))),)),)
