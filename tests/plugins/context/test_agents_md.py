from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codex_framework import CodexError, Fragment, TurnFacts
from codex_plugin_context import AgentsMd

Facts = Callable[..., TurnFacts]


def sent(facts: TurnFacts) -> str | None:
    """The instructions that are sent, without their frame."""
    fragments = list(AgentsMd().fragments(facts))
    if not fragments:
        return None
    (fragment,) = fragments
    head = f"# AGENTS.md instructions for {facts.cwd}\n\n<INSTRUCTIONS>\n"
    assert fragment.text.startswith(head)
    assert fragment.text.endswith("\n</INSTRUCTIONS>")
    return fragment.text.removeprefix(head).removesuffix("\n</INSTRUCTIONS>")


def complaint(facts: TurnFacts) -> tuple[str | None, str]:
    """What is sent before the source complains, and its complaint."""
    fragments: list[Fragment] = []
    with pytest.raises(CodexError) as caught:
        fragments.extend(AgentsMd().fragments(facts))
    text = fragments[0].text.partition("<INSTRUCTIONS>\n")[2].removesuffix("\n</INSTRUCTIONS>") if fragments else None
    return text, str(caught.value)


def test_the_text_is_framed_as_codex_frames_it(facts: Facts, work: Path) -> None:
    (work / "AGENTS.md").write_text("Be kind.\n")
    assert list(AgentsMd().fragments(facts())) == [
        Fragment(
            role="user",
            text=f"# AGENTS.md instructions for {work}\n\n<INSTRUCTIONS>\nBe kind.\n\n</INSTRUCTIONS>",
            start="# AGENTS.md instructions for ",
            end="</INSTRUCTIONS>",
            order=100,
        )
    ]


def test_nothing_is_sent_without_a_file(facts: Facts) -> None:
    assert sent(facts()) is None


def test_blank_files_are_as_good_as_none(facts: Facts, work: Path, codex_home: Path) -> None:
    (work / "AGENTS.md").write_text(" \n")
    (codex_home / "AGENTS.md").write_text("\n\n")
    assert sent(facts()) is None


def test_the_persons_file_stands_before_the_projects(facts: Facts, work: Path, codex_home: Path) -> None:
    (codex_home / "AGENTS.md").write_text("\nmine\n")
    assert sent(facts()) == "mine"
    (work / "AGENTS.md").write_text("ours")
    assert sent(facts()) == "mine\n\n--- project-doc ---\n\nours"


def test_an_override_stands_in_for_the_persons_file_unless_it_is_blank(facts: Facts, codex_home: Path) -> None:
    (codex_home / "AGENTS.md").write_text("usual")
    (codex_home / "AGENTS.override.md").write_text("special")
    assert sent(facts()) == "special"
    (codex_home / "AGENTS.override.md").write_text(" ")
    assert sent(facts()) == "usual"


@pytest.fixture
def tree(work: Path) -> Path:
    """A repository whose folders a and a/b have instructions too; gives a/b."""
    (work / ".git" / "objects").mkdir(parents=True)
    deep = work / "a/b"
    deep.mkdir(parents=True)
    for folder, text in ((work.parent, "outside"), (work, "root"), (work / "a", "middle"), (deep, "here")):
        (folder / "AGENTS.md").write_text(text)
    return deep


def test_files_from_the_root_down_to_the_folder_count(facts: Facts, tree: Path) -> None:
    assert sent(facts(cwd=tree)) == "root\n\nmiddle\n\nhere"
    assert sent(facts(cwd=tree.parent)) == "root\n\nmiddle"


def test_without_a_root_only_the_folder_itself_counts(facts: Facts, tree: Path, work: Path) -> None:
    (work / ".git" / "objects").rmdir()
    assert sent(facts(cwd=tree)) == "here", "an empty .git is a sandbox's placeholder, not a repository"
    (work / ".git").rmdir()
    assert sent(facts(cwd=tree)) == "here"
    (work / ".git").write_text("gitdir: elsewhere")
    assert sent(facts(cwd=tree)) == "root\n\nmiddle\n\nhere", "a worktree has a file there"


def test_root_markers_can_be_chosen(facts: Facts, tree: Path) -> None:
    (tree.parent / "package.json").touch()
    assert sent(facts(cwd=tree, project_root_markers=["package.json"])) == "middle\n\nhere"
    assert sent(facts(cwd=tree, project_root_markers=[])) == "here"


def test_an_override_stands_in_for_its_folders_file(facts: Facts, tree: Path) -> None:
    (tree.parent / "AGENTS.override.md").write_text("instead")
    assert sent(facts(cwd=tree)) == "root\n\ninstead\n\nhere"


def test_other_names_count_where_there_is_no_agents_file(facts: Facts, tree: Path) -> None:
    (tree / "GUIDE.md").write_text("guide")
    names = ["MISSING.md", "GUIDE.md"]
    assert sent(facts(cwd=tree, project_doc_fallback_filenames=names)) == "root\n\nmiddle\n\nhere"
    (tree / "AGENTS.md").unlink()
    assert sent(facts(cwd=tree, project_doc_fallback_filenames=names)) == "root\n\nmiddle\n\nguide"


def test_a_folder_reached_by_a_link_is_looked_at_where_it_is(facts: Facts, tree: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert sent(facts(cwd=link)) == "root\n\nmiddle\n\nhere"


def test_project_files_share_one_budget(facts: Facts, tree: Path) -> None:
    text, problem = complaint(facts(cwd=tree, project_doc_max_bytes=7))
    assert text == "root\n\nmid"
    assert problem == (
        f"{tree.parent}/AGENTS.md is cut off: project_doc_max_bytes is 7; "
        f"{tree}/AGENTS.md is left out: project_doc_max_bytes (7) is used up"
    )


def test_a_budget_that_fits_exactly_cuts_nothing(facts: Facts, tree: Path) -> None:
    assert sent(facts(cwd=tree, project_doc_max_bytes=len("rootmiddlehere"))) == "root\n\nmiddle\n\nhere"


def test_the_budget_is_32768_bytes_unless_configured(facts: Facts, work: Path, codex_home: Path) -> None:
    (codex_home / "AGENTS.md").write_text("p" * 40_000)
    (work / "AGENTS.md").write_text("x" * 32_769)
    text, _ = complaint(facts())
    assert text == "p" * 40_000 + "\n\n--- project-doc ---\n\n" + "x" * 32_768


def test_a_budget_of_nothing_turns_project_files_off(facts: Facts, tree: Path, codex_home: Path) -> None:
    (codex_home / "AGENTS.md").write_text("mine")
    assert sent(facts(cwd=tree, project_doc_max_bytes=0)) == "mine"


def test_a_character_is_not_torn_by_the_budget(facts: Facts, work: Path) -> None:
    (work / "AGENTS.md").write_text("a🦄🦄")
    for budget in (5, 6, 7, 8):
        text, problem = complaint(facts(project_doc_max_bytes=budget))
        assert text == "a🦄"
        assert "UTF-8" not in problem


def test_invalid_bytes_are_replaced_and_reported_once(facts: Facts, work: Path) -> None:
    (work / "AGENTS.md").write_bytes(b"caf\xe9 rules")
    text, problem = complaint(facts())
    assert text == "caf\ufffd rules"
    assert problem == f"{work}/AGENTS.md is not valid UTF-8; the invalid bytes were replaced"
    assert sent(facts(first=False)) == "caf\ufffd rules"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported(facts: Facts, work: Path) -> None:
    (work / "AGENTS.md").write_text("secret")
    (work / "AGENTS.md").chmod(0)
    assert complaint(facts()) == (None, f"{work}/AGENTS.md cannot be read: Permission denied")


def test_an_edit_counts_from_the_next_turn_on(facts: Facts, work: Path) -> None:
    (work / "AGENTS.md").write_text("one")
    assert sent(facts()) == "one"
    (work / "AGENTS.md").write_text("two")
    assert sent(facts(first=False)) == "two"


def test_odd_settings_are_taken_for_the_default(facts: Facts, tree: Path) -> None:
    odd = {"project_doc_max_bytes": "many", "project_doc_fallback_filenames": "GUIDE.md", "project_root_markers": None}
    assert sent(facts(cwd=tree, **odd)) == "root\n\nmiddle\n\nhere"
