"""The ``apply_patch`` command, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from codex_plugin_apply_patch.tool import ApplyPatch


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def test_the_tool_provides_the_command() -> None:
    programs = ApplyPatch().programs
    assert set(programs) == {"apply_patch", "applypatch"}
    assert programs["apply_patch"][0] == sys.executable


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "stderr"),
    [
        ([], "", 2, "Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch\n"),
        (["a", "b"], "", 2, "Error: apply_patch accepts exactly one argument.\n"),
        (["nonsense"], "", 1, "Invalid patch: The first line of the patch must be '*** Begin Patch'\n"),
        ([patch()], "", 1, "No files were modified.\n"),
        (
            [patch("*** Update File: x")],
            "",
            1,
            "Invalid patch hunk on line 2: Update file hunk for path 'x' is empty\n",
        ),
        ([], patch("*** Add File: x", "+y"), 0, ""),
    ],
)
def test_the_command_answers(desk: Any, arguments: list[str], stdin: str, status: int, stderr: str) -> None:
    argv = [*ApplyPatch().programs["apply_patch"], *arguments]
    ended = subprocess.run(argv, cwd=desk.folder, input=stdin, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (status, stderr)


def test_the_command_takes_names_and_lines_of_any_bytes(desk: Any) -> None:
    text = patch("*** Add File: n\udce9", "+l\udcff").encode("utf-8", "surrogateescape")
    argv = [*map(os.fsencode, ApplyPatch().programs["apply_patch"]), text]
    ended = subprocess.run(argv, cwd=desk.folder, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"Success. Updated the following files:\nA n\xe9\n")
    assert desk.tree() == {"n\udce9": b"l\xff\n"}


def test_the_command_works_without_a_reader_and_tells_of_a_lost_folder(desk: Any) -> None:
    argv = ApplyPatch().programs["apply_patch"]
    script = 'apply() { "$@"; echo $? >&2; }; apply "$@" | true; apply "$@" x'
    words = [*argv, patch("*** Add File: a", "+x")]
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *words], cwd=desk.folder, capture_output=True, text=True, check=False
    )
    assert ended.stderr == "0\nError: apply_patch accepts exactly one argument.\n2\n"
    script = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *words], cwd=desk.folder, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (1, "No such file or directory (os error 2)\n")


def test_the_command_keeps_what_it_did_before_a_failure(desk: Any) -> None:
    text = patch("*** Add File: a", "+x", "*** Update File: no", "@@", "-x")
    argv = [*ApplyPatch().programs["apply_patch"], text]
    ended = subprocess.run(argv, cwd=desk.folder, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"Failed to read file to update {desk.folder}/no: No such file or directory (os error 2)\n"
    assert desk.tree() == {"a": b"x\n"}


def test_the_module_is_the_command_too(desk: Any) -> None:
    argv = [sys.executable, "-m", "codex_plugin_apply_patch", patch("*** Add File: a", "+x")]
    ended = subprocess.run(argv, cwd=desk.folder, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "Success. Updated the following files:\nA a\n")
