"""Characters that Python takes for the end of a line, and a patch does not."""

from __future__ import annotations

import pytest

from codex_framework import ToolCall
from codex_plugin_apply_patch.grammar import Chunk
from codex_plugin_apply_patch.interception import PatchInterceptor
from codex_plugin_apply_patch.revision import revise


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028"])
def test_only_newlines_end_a_line(mark: str) -> None:
    chunk = Chunk(None, ((" ", f"a{mark}b"), ("-", "c"), ("+", "d")))
    assert revise(f"a{mark}b\nc\n", [chunk], "f").after == f"a{mark}b\nd\n"


def test_lines_keep_their_ends_in_a_file_with_several() -> None:
    chunk = Chunk(None, ((" ", "a"), ("-", "b"), ("+", "x"), (" ", "c")))
    assert revise("a\r\nb\nc\r\n", [chunk], "f").after == "a\r\nx\r\nc\r\n"


PATCH = '{"cmd": "apply_patch <<EOF"}'


@pytest.mark.parametrize(
    ("name", "arguments", "alone"),
    [
        ("exec_command", PATCH, True),
        ("shell", PATCH, True),
        ("read_file", PATCH, False),
        ("exec_command", '{"cmd": "ls"}', False),
    ],
)
def test_only_patches_for_a_tool_that_runs_commands_run_alone(name: str, arguments: str, alone: bool) -> None:
    assert PatchInterceptor().alone(ToolCall("c1", name, arguments)) is alone
