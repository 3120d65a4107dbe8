from __future__ import annotations

import difflib
import itertools
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_apply_patch.disk import Disk
from codex_plugin_apply_patch.grammar import Hunk, InvalidPatch, UpdateHunk, parse
from codex_plugin_apply_patch.plan import Plan, PlanFailed
from codex_plugin_apply_patch.preview import StreamedPatch
from codex_plugin_apply_patch.revision import LinesNotFound, revise
from codex_plugin_apply_patch.script import heredoc_patch

LINES = st.sampled_from(
    ["a", "b", "c", "", " ", "  a", "a ", "@@", "*** x", "-", "+", "–", "é\x85x", "\x0c", "long line"]
)
TEXTS = st.lists(LINES, max_size=12).map(lambda lines: "".join(f"{line}\n" for line in lines))

MARKERS = [
    "*** Begin Patch",
    "*** End Patch",
    "*** Add File: a",
    "*** Delete File: b",
    "*** Update File: c",
    "*** Move to: d",
    "*** End of File",
    "*** Environment ID: e",
    "@@",
    "@@ a",
    "+a",
    "-a",
    " a",
    "",
    " ",
    "<<EOF",
    "EOF",
    "x",
]
PATCHES = st.one_of(
    st.text(),
    st.lists(st.sampled_from(MARKERS), max_size=14).map("\n".join),
    st.lists(st.sampled_from(MARKERS), max_size=12).map(
        lambda lines: "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    ),
)


def update_between(before: str, after: str) -> str:
    """A patch as a careful model writes it: with unique places and all context."""
    old, new = before.split("\n")[:-1], after.split("\n")[:-1]
    body = ["@@"]
    for tag, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            body += [f" {line}" for line in old[old_start:old_end]]
        else:
            body += [f"-{line}" for line in old[old_start:old_end]]
            body += [f"+{line}" for line in new[new_start:new_end]]
    return "\n".join(("*** Begin Patch", "*** Update File: f", *body, "*** End Patch"))


@given(TEXTS.filter(bool), TEXTS)
def test_an_update_that_shows_the_whole_file_turns_one_text_into_the_other(before: str, after: str) -> None:
    (hunk,) = parse(update_between(before, after))
    assert isinstance(hunk, UpdateHunk)
    assert revise(before, hunk.chunks, "f").after == after


@given(TEXTS.filter(bool), TEXTS)
def test_crlf_files_stay_crlf_files(before: str, after: str) -> None:
    (hunk,) = parse(update_between(before, after))
    assert isinstance(hunk, UpdateHunk)
    assert revise(before.replace("\n", "\r\n"), hunk.chunks, "f").after == after.replace("\n", "\r\n")


@given(TEXTS.filter(bool), TEXTS)
def test_the_diff_of_an_event_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    (hunk,) = parse(update_between(before, after))
    assert isinstance(hunk, UpdateHunk)
    assert applied(before, revise(before, hunk.chunks, "f").diff()) == after


def applied(before: str, diff: str) -> str:
    """Follow a unified diff, strictly."""
    old = before.split("\n")[:-1]
    new: list[str] = []
    at = 0
    for line in diff.split("\n")[:-1]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            new += old[at:begin]
            at = begin
            continue
        if line[0] in " -":
            assert old[at] == line[1:]
            at += 1
        if line[0] in " +":
            new.append(line[1:])
    return "".join(f"{line}\n" for line in [*new, *old[at:]])


@given(PATCHES)
def test_any_text_is_a_patch_or_an_invalid_one(text: str) -> None:
    try:
        parse(text)
    except InvalidPatch as fault:
        told = str(fault)
    else:
        return
    assert told.startswith(("invalid patch: ", "invalid hunk at line "))


@given(PATCHES, TEXTS)
def test_any_patch_fits_a_folder_or_is_told_why_not(text: str, content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in "abc":
            (Path(folder) / name).write_text(content, newline="")
        plan = Plan(Disk(folder))
        try:
            for hunk in parse(text):
                plan.add(hunk)
        except (InvalidPatch, PlanFailed) as fault:
            told = str(fault)
        else:
            return
        assert told


@given(st.lists(st.sampled_from(MARKERS[2:15]), max_size=14), st.lists(st.integers(0, 300)), st.booleans())
def test_a_patch_in_pieces_is_read_like_the_whole(lines: list[str], cuts: list[int], crlf: bool) -> None:
    text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    if crlf:
        text = text.replace("\n", "\r\n")
    whole: tuple[Hunk, ...] | None
    try:
        whole = parse(text)
    except InvalidPatch:
        whole = None
    streamed = StreamedPatch()
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, end in itertools.pairwise(edges):
        streamed.push(text[start:end])
        _ = streamed.hunks
    streamed.finish()
    if whole is None:
        assert streamed.fault is not None
    else:
        assert (streamed.hunks, streamed.fault) == (whole, None)


@given(st.one_of(st.text(), st.lists(st.sampled_from("apply_patch <<'EOF'\n;&|cd()\"$`EOF*")).map("".join)))
def test_any_script_is_told_from_a_patch_without_a_fault(script: str) -> None:
    found = heredoc_patch(script)
    assert found is None or isinstance(found[0], str)


def test_what_the_interceptor_takes_is_what_bash_would_hand_over() -> None:
    body = '*** Begin Patch\n*** Add File: f\n+it\'s "so" \\n $(x)\n*** End Patch\n'
    script = f"cd sub && apply_patch <<'EOF'\n{body}EOF\n"
    found = heredoc_patch(script)
    assert found == (body, "sub")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sub").mkdir()
        program = Path(folder) / "apply_patch"
        program.write_text("#!/bin/sh\npwd -P >../seen.pwd\ncat >../seen.txt\n")
        program.chmod(0o755)
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-c", script], cwd=folder, env=env, check=True)
        assert (Path(folder) / "seen.txt").read_text() == body
        assert (Path(folder) / "seen.pwd").read_text().strip() == os.path.realpath(f"{folder}/sub")


@given(st.lists(LINES, min_size=1, max_size=8), st.integers(0, 7), st.integers(0, 7))
def test_lines_that_are_not_there_are_never_taken_for_others(lines: list[str], start: int, size: int) -> None:
    before = "".join(f"{line}\n" for line in lines)
    wanted = ["surely nowhere", *lines[start : start + size]]
    text = "\n".join(("*** Begin Patch", "*** Update File: f", "@@", *(f"-{line}" for line in wanted), "*** End Patch"))
    (hunk,) = parse(text)
    assert isinstance(hunk, UpdateHunk)
    with pytest.raises(LinesNotFound) as caught:
        revise(before, hunk.chunks, "f")
    assert str(caught.value) == "Failed to find expected lines in f:\n" + "\n".join(wanted)
