from __future__ import annotations

import pytest

from codex_plugin_apply_patch.grammar import (
    AddHunk,
    Chunk,
    DeleteHunk,
    InvalidPatch,
    UpdateHunk,
    parse,
)

HEADERS = "Valid hunk headers: '*** Add File: {path}', '*** Delete File: {path}', '*** Update File: {path}'"
LINES = "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def update(*lines: str) -> UpdateHunk:
    (hunk,) = parse(patch("*** Update File: f", *lines))
    assert isinstance(hunk, UpdateHunk)
    return hunk


def test_every_kind_of_hunk_is_read_in_order() -> None:
    text = patch(
        "*** Add File: new/a.txt",
        "+one",
        "+",
        "*** Delete File: old file.txt",
        "*** Update File: b.py",
        "*** Move to: c.py",
        "@@ class B:",
        " kept",
        "-old",
        "+new",
        "@@",
        "+last",
        "*** End of File",
    )
    assert parse(text) == (
        AddHunk("new/a.txt", "one\n\n"),
        DeleteHunk("old file.txt"),
        UpdateHunk(
            "b.py",
            "c.py",
            (
                Chunk("class B:", ((" ", "kept"), ("-", "old"), ("+", "new"))),
                Chunk(None, (("+", "last"),), end_of_file=True),
            ),
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        patch("*** Delete File: f"),
        f"\n  \n{patch('*** Delete File: f')}\n\n",
        patch("*** Delete File: f").replace("\n", "\r\n"),
        "  *** Begin Patch  \n  *** Delete File: f \n\t*** End Patch",
        patch("*** Environment ID: remote", "*** Delete File: f"),
        f"<<EOF\n{patch('*** Delete File: f')}\nEOF",
        f"<<'EOF'\n{patch('*** Delete File: f')}\nEOF\n",
        f'<<"EOF"\n{patch("*** Delete File: f")}\nEOF',
    ],
)
def test_slips_around_the_patch_are_forgiven(text: str) -> None:
    assert parse(text) == (DeleteHunk("f"),)


def test_the_first_chunk_needs_no_marker() -> None:
    assert update("-a", "+b").chunks == (Chunk(None, (("-", "a"), ("+", "b"))),)


def test_an_empty_line_in_a_chunk_is_an_empty_context_line() -> None:
    assert update("@@", "-a", "", "+b").chunks == (Chunk(None, (("-", "a"), (" ", ""), ("+", "b"))),)


def test_space_after_a_bare_marker_is_no_context() -> None:
    assert update("@@  ", "-a").chunks == (Chunk(None, (("-", "a"),)),)


def test_blank_lines_after_the_end_of_file_marker_are_skipped() -> None:
    chunks = update("@@", "-a", "*** End of File ", "", "  ", "@@", "-b").chunks
    assert chunks == (Chunk(None, (("-", "a"),), end_of_file=True), Chunk(None, (("-", "b"),)))


def test_an_added_file_may_be_empty() -> None:
    assert parse(patch("*** Add File: f")) == (AddHunk("f", ""),)


def test_a_patch_may_have_no_hunk() -> None:
    assert parse(patch()) == ()


def test_an_indented_header_within_a_chunk_is_context() -> None:
    assert update("@@", "-a", " *** Delete File: x").chunks[0].lines[1] == (" ", "*** Delete File: x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "invalid patch: The first line of the patch must be '*** Begin Patch'"),
        (f"```\n{patch()}\n```", "invalid patch: The first line of the patch must be '*** Begin Patch'"),
        ("*** Begin Patch\n*** Add File: a\n+x", "invalid patch: The last line of the patch must be '*** End Patch'"),
        ("", "invalid patch: The last line of the patch must be '*** End Patch'"),
        (
            patch("*** End Patch", "*** Delete File: f"),
            "invalid patch: The last line of the patch must be '*** End Patch'",
        ),
        (
            patch("*** Rename File: x"),
            f"invalid hunk at line 2, '*** Rename File: x' is not a valid hunk header. {HEADERS}",
        ),
        (
            patch("*** Add File: a", "no plus"),
            f"invalid hunk at line 3, 'no plus' is not a valid hunk header. {HEADERS}",
        ),
        (patch("*** Update File: f"), "invalid hunk at line 2, Update file hunk for path 'f' is empty"),
        (
            patch("*** Update File: f", "*** Move to: g"),
            "invalid hunk at line 2, Update file hunk for path 'f' is empty",
        ),
        (
            patch("*** Environment ID: e", "*** Update File: f"),
            "invalid hunk at line 3, Update file hunk for path 'f' is empty",
        ),
        (patch("*** Update File: f", "@@"), "invalid hunk at line 4, Update hunk does not contain any lines"),
        (
            patch("*** Update File: f", "@@", "*** End of File"),
            "invalid hunk at line 4, Update hunk does not contain any lines",
        ),
        (
            patch("*** Update File: f", "@@", "bad"),
            f"invalid hunk at line 4, Unexpected line found in update hunk: 'bad'. {LINES}",
        ),
        (
            patch("*** Update File: f", "@@", "-a", "bad"),
            "invalid hunk at line 5, Expected update hunk to start with a @@ context marker, got: 'bad'",
        ),
        (
            patch("*** Update File: f", "@@", "-a", "*** End of File", "-b"),
            "invalid hunk at line 6, Expected update hunk to start with a @@ context marker, got: '-b'",
        ),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidPatch) as caught:
        parse(text)
    assert str(caught.value) == message
