from __future__ import annotations

import pytest

from codex_plugin_apply_patch.grammar import UpdateHunk, parse
from codex_plugin_apply_patch.revision import LinesNotFound, Revision, revise


def revised(before: str, *lines: str) -> Revision:
    (hunk,) = parse("\n".join(("*** Begin Patch", "*** Update File: f", *lines, "*** End Patch")))
    assert isinstance(hunk, UpdateHunk)
    return revise(before, hunk.chunks, "/f")


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        pytest.param("a\nb\nc\n", ("@@", " a", "-b", "+B"), "a\nB\nc\n", id="replace"),
        pytest.param("a\nb\nc\nd\n", ("@@", "-a", "@@", "-d", "+D"), "b\nc\nD\n", id="two chunks"),
        pytest.param("a\n", ("@@", "-a"), "", id="nothing left"),
        pytest.param("x\ny\nx\n", ("@@ y", "-x", "+z"), "x\ny\nz\n", id="below a context line"),
        pytest.param("x\nx\n", ("@@ x", "-x", "+z"), "x\nz\n", id="below a context line that is like the next"),
        pytest.param("x\nx\nx\n", ("@@", "-x", "+y", "@@", "-x", "+z"), "y\nz\nx\n", id="chunks follow each other"),
        pytest.param("x\ny\nx\n", ("@@", "-x", "+z", "*** End of File"), "x\ny\nz\n", id="at the end"),
        pytest.param("a\nb\n", ("@@ a", "+new"), "a\nb\nnew\n", id="pure additions go to the end"),
        pytest.param("", ("@@", "+new"), "new\n", id="into an empty file"),
        pytest.param("a", ("@@", "-a", "+b"), "b\n", id="a missing last newline is added"),
        pytest.param("a\nb", ("@@", "-a", "+A"), "A\nb\n", id="also to a line that stays"),
        pytest.param("a", ("@@", "+b"), "a\nb\n", id="also before additions"),
        pytest.param("a\r\nb\r\n", ("@@", " a", "-b", "+B", "+C"), "a\r\nB\r\nC\r\n", id="CRLF"),
        pytest.param("a\r\nb\nc", ("@@", "-b", "+B"), "a\r\nB\r\nc\r\n", id="the first line's end counts"),
        pytest.param("a\nb\r\n", ("@@", "-a", "+A"), "A\nb\r\n", id="other lines keep theirs"),
        pytest.param("a\rb\rc\r", ("@@", " a", "-b", "+B"), "a\rB\rc\r", id="lone carriage returns end lines too"),
        pytest.param("a\nb\r\r\nc\rd", ("@@", "-b", "+B", "", "-c"), "a\nB\n\r\nd\n", id="all ends mixed"),
        pytest.param("  a\nb\n", ("@@", " a", "-b", "+B"), "  a\nB\n", id="context stays as the file has it"),
        pytest.param("a  \n", ("@@", "-a", "+b"), "b\n", id="space at the end of a line"),
        pytest.param("\t a\t\n", ("@@", "-a", "+b"), "b\n", id="space around a line"),
        pytest.param("“q” – it’s\xa0so\n", ("@@", '-"q" - it\'s so', "+x"), "x\n", id="typographic characters"),
        pytest.param("a\n", ("@@", " a", "+b", ""), "a\nb\n", id="an empty last line stands for the end"),
        pytest.param("a\x0bb\x85c\u2028d\n", ("@@", "-a\x0bb\x85c\u2028d", "+x"), "x\n", id="only newlines end lines"),
    ],
)
def test_chunks_are_applied(before: str, lines: tuple[str, ...], after: str) -> None:
    assert revised(before, *lines).after == after


def test_an_exact_match_further_down_wins_over_a_lenient_one_above() -> None:
    assert revised("  x\nx\n", "@@", "-x", "+y").after == "  x\ny\n"


@pytest.mark.parametrize(
    ("before", "lines", "message"),
    [
        ("a\n", ("@@", "-b", " c"), "Failed to find expected lines in /f:\nb\nc"),
        ("a\n", ("@@ nowhere", "-a"), "Failed to find context 'nowhere' in /f"),
        ("a\nb\n", ("@@", "-b", "@@", "-a"), "Failed to find expected lines in /f:\na"),
        ("x\ny\n", ("@@", "-x", "*** End of File"), "Failed to find expected lines in /f:\nx"),
        (
            "x\n",
            ("@@", "-x", "*** End of File", "@@", "-x", "*** End of File"),
            "Failed to find expected lines in /f:\nx",
        ),
    ],
)
def test_what_does_not_fit_is_told(before: str, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(LinesNotFound) as caught:
        revised(before, *lines)
    assert str(caught.value) == message


def test_the_diff_has_one_line_of_context() -> None:
    before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    diff = revised(before, "@@", " 1", " 2", "-3", "+three", " 4", "@@", "-8").diff()
    assert diff == "@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n@@ -7,3 +7,2 @@\n 7\n-8\n 9\n"


def test_the_diff_tells_of_a_newline_that_was_added() -> None:
    assert revised("a\nb\nc", "@@", "-a", "+A").diff() == (
        "@@ -1,3 +1,3 @@\n-a\n+A\n b\n-c\n\\ No newline at end of file\n+c\n"
    )


def test_the_diff_of_a_file_that_gets_its_first_line() -> None:
    assert revised("", "@@", "+a").diff() == "@@ -0,0 +1 @@\n+a\n"


def test_a_replaced_text_is_shown_by_what_differs() -> None:
    assert Revision.between("a\nb\nc\n", "a\nB\nc\n").diff() == "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
