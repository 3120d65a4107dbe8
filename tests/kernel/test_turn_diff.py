"""The diff of a turn: what clients show of all its changes."""

from __future__ import annotations

from pathlib import Path

from codex_framework.threads.turn.diff import TurnDiff

LINES = "".join(f"{number}\n" for number in range(1, 21))


def diff_of(before: str | None, after: str | None) -> str:
    diff = TurnDiff(Path("/work"))
    diff.note("/work/a", before, after)
    return diff.take() or ""


def test_a_hunk_has_three_lines_of_context_around_its_changes() -> None:
    text = diff_of(LINES, LINES.replace("\n10\n", "\nten\n"))
    assert text.splitlines()[3:] == ["@@ -7,7 +7,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"]


def test_changes_with_up_to_six_lines_between_them_share_a_hunk() -> None:
    once = LINES.replace("\n5\n", "\nfive\n")
    assert diff_of(LINES, once.replace("\n12\n", "\ntwelve\n")).count("@@ -") == 1
    assert diff_of(LINES, once.replace("\n13\n", "\nthirteen\n")).count("@@ -") == 2


def test_several_changes_of_a_file_are_one_and_those_that_cancel_out_none() -> None:
    diff = TurnDiff(Path("/work"))
    diff.note("/work/a", "1\n", "2\n")
    diff.note("/work/b", None, "new")
    diff.note("/work/a", "2\n", "3\n")
    assert diff.take() == (
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+3\n"
        "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n"
    )
    assert diff.take() is None, "nothing has changed since"
    diff.note("/work/a", "3\n", "1\n")
    diff.note("/work/b", "new", None)
    assert diff.take() == ""


def test_a_path_outside_of_the_folder_is_whole() -> None:
    diff = TurnDiff(Path("/work"))
    diff.note("/etc/x", "1\n", None)
    assert (diff.take() or "").startswith(
        "diff --git a/etc/x b/etc/x\ndeleted file mode 100644\n--- a/etc/x\n+++ /dev/null\n"
    )


def test_a_file_that_stays_as_it_is_is_shown_beside_one_that_changes_again() -> None:
    diff = TurnDiff(Path("/work"))
    diff.note("/work/b", None, "1\n")
    diff.note("/work/c", "1\n", "2\n")
    first = diff.take() or ""
    diff.note("/work/a/../a", None, "new\n")
    diff.note("/work/c", "2\n", "3\n")
    second = diff.take() or ""
    assert [line for line in second.splitlines() if line.startswith("diff")] == [
        "diff --git a/a b/a",
        "diff --git a/b b/b",
        "diff --git a/c b/c",
    ]
    assert second.endswith(first.partition("diff --git a/c")[1] + " b/c\n--- a/c\n+++ b/c\n@@ -1 +1 @@\n-1\n+3\n")
