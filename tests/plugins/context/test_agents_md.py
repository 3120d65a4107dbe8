from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import CodexError, Fragment, Kernel, TurnFacts
from codex_framework.config import load_config
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.testing.replies import say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_context import AgentsMd

Facts = Callable[..., TurnFacts]


def sent(facts: TurnFacts) -> str | None:
    """The instructions that are sent, without their frame."""
    (fragment,) = AgentsMd().fragments(facts)
    if not fragment.text:
        assert fragment.replacement == ""
        return None
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
            start="# AGENTS.md instructions",
            end="</INSTRUCTIONS>",
            order=100,
            replacement=f"# AGENTS.md instructions for {work}\n\n<INSTRUCTIONS>\nThese AGENTS.md instructions replace all "
            "previously provided AGENTS.md instructions.\n\nBe kind.\n\n</INSTRUCTIONS>",
            revocation="# AGENTS.md instructions\n\n<INSTRUCTIONS>\nThe previously provided AGENTS.md instructions no longer "
            "apply.\n</INSTRUCTIONS>",
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


@pytest.mark.parametrize("trusted", [True, False])
def test_files_of_a_distrusted_project_are_not_read(
    facts: Facts, work: Path, codex_home: Path, *, trusted: bool
) -> None:
    (codex_home / "AGENTS.md").write_text("mine")
    (work / "AGENTS.md").write_text("theirs")
    project = {"trust_level": "trusted" if trusted else "untrusted"}
    assert sent(facts(projects={str(work): project})) == (
        "mine\n\n--- project-doc ---\n\ntheirs" if trusted else "mine"
    )


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
        f"{tree.parent}/AGENTS.md is truncated: project_doc_max_bytes is 7; "
        f"{tree}/AGENTS.md is skipped: project_doc_max_bytes (7) is used up"
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


def steps() -> list[tuple[str | None, str | None]]:
    """What the file contains before a turn (None: it is gone), and what Codex 0.169 sends then (None: nothing)."""
    replaces = "These AGENTS.md instructions replace all previously provided AGENTS.md instructions.\n\n"
    gone = "# AGENTS.md instructions\n\n<INSTRUCTIONS>\nThe previously provided AGENTS.md instructions no longer apply."
    return [
        ("kind", "kind\n"),
        ("kind", None),
        ("brief", f"{replaces}brief\n"),
        ("brief", None),
        (None, gone),
        (None, None),
        ("back", "back\n"),
        ("brief", f"{replaces}brief\n"),
        ("  ", gone),
        ("brief", "brief\n"),
    ]


def texts_sent(run: Callable[[int], list[str]], work: Path) -> list[str | None]:
    """Return what is sent for AGENTS.md in each of the steps, without its frame."""
    sent: list[str | None] = []
    for number, (content, _) in enumerate(steps()):
        path = work / "AGENTS.md"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(f"{content}\n")
        new = [text for text in run(number) if text.startswith("# AGENTS.md")]
        assert len(new) <= 1
        head = f"# AGENTS.md instructions for {work}\n\n<INSTRUCTIONS>\n"
        sent.append(new[0].removeprefix(head).removesuffix("\n</INSTRUCTIONS>") if new else None)
    return sent


def texts(items: list[dict[str, Any]]) -> list[str]:
    return [part["text"] for item in items if item.get("type") == "message" for part in item["content"]]


def test_instructions_that_change_are_replaced_and_those_that_go_are_revoked(work: Path, codex_home: Path) -> None:
    environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin", "HOME": str(codex_home)}

    async def turn(url: str, number: int, threads: list[str]) -> None:
        provider = f'model_providers.mock={{name="mock",base_url="{url}",wire_api="responses"}}'
        overrides = (provider, 'model_provider="mock"', 'model="m"', 'sandbox_mode="danger-full-access"')
        config = load_config(cwd=work, environ=environ, overrides=overrides)
        async with await Kernel.create(config, environ=environ) as kernel:
            thread = await (kernel.resume_thread(threads[0]) if threads else kernel.start_thread())
            threads.append(thread.id)
            await thread.run(f"q{number}")

    threads: list[str] = []
    with ResponsesServer([say(f"a{number}") for number in range(len(steps()))]) as server:

        def run(number: int) -> list[str]:
            asyncio.run(turn(server.url, number, threads))
            before = len(server.inputs[-2]) if number else 0
            return texts(server.inputs[-1][before:])

        assert texts_sent(run, work) == [expected for _, expected in steps()]


def test_codex_sends_the_same(work: Path, codex_home: Path, codex_binary: str) -> None:
    with ResponsesServer([say(f"a{number}") for number in range(len(steps()))]) as server:
        provider = f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses"}}'

        def run(number: int) -> list[str]:
            options = ("-c", provider, "-c", "model_provider=mock", "-m", "gpt-5.5", "--skip-git-repo-check")
            subprocess.run(
                [codex_binary, "exec", *options, *(("resume", "--last") if number else ()), f"q{number}"],
                cwd=work,
                env={"HOME": str(codex_home), "CODEX_HOME": str(codex_home), "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=60,
            )
            before = len(server.inputs[-2]) if number else 0
            return texts(server.inputs[-1][before:])

        assert texts_sent(run, work) == [expected for _, expected in steps()]


def test_what_cannot_be_read_any_more_is_not_revoked(facts: Facts, work: Path, codex_home: Path) -> None:
    assert [fragment.text for fragment in AgentsMd().fragments(facts(first=False))] == [""]
    (work / "AGENTS.md").write_text("kind")
    (codex_home / "loop").symlink_to("loop")
    (codex_home / "AGENTS.md").symlink_to("loop")
    (work / "AGENTS.md").write_text("")
    assert list(AgentsMd().fragments(facts(first=False))) == []


# Symlinks

KEY = "sk-of-the-provider"


@pytest.fixture
def links(work: Path, codex_home: Path, tmp_path: Path) -> Path:
    """A project with a checkout's ``.git``, beside files of its owner."""
    (work / ".git").mkdir()
    (work / ".git" / "HEAD").touch()
    (work / "CLAUDE.md").write_text("in the project")
    (work / "rules.txt").write_text("any name")
    (codex_home / "auth.json").write_text(KEY)
    (codex_home / "shared.md").write_text("my own")
    (tmp_path / "id_rsa").write_text(KEY)
    (tmp_path / "shared.md").write_text("of all projects")
    (tmp_path / "AGENTS.md").write_text("above")
    (tmp_path / "to-key.md").symlink_to("id_rsa")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("CLAUDE.md", "in the project"),
        ("rules.txt", "any name"),
        ("../shared.md", "of all projects"),
        ("../AGENTS.md", "above"),
        ("../home/shared.md", "my own"),
    ],
)
def test_links_to_instructions_are_followed(facts: Facts, work: Path, links: Path, target: str, text: str) -> None:
    (work / "AGENTS.md").symlink_to(target)
    assert sent(facts()) == text


@pytest.mark.parametrize(
    "target", ["/proc/self/environ", "../home/auth.json", "../id_rsa", "../to-key.md", "/etc/passwd"]
)
def test_links_to_keys_are_not_followed(facts: Facts, work: Path, links: Path, target: str) -> None:
    (work / "AGENTS.md").symlink_to(target)
    text, problem = complaint(facts())
    assert text is None
    assert problem == f"{work}/AGENTS.md is not used: its target may not be read as instructions"


def test_keys_of_a_home_within_the_project_are_not_instructions(facts: Facts, links: Path) -> None:
    (links / ".git").mkdir()
    (links / ".git" / "HEAD").touch()
    (links / "AGENTS.md").unlink()
    (links / "AGENTS.md").symlink_to("home/auth.json")
    text, problem = complaint(facts(cwd=links))
    assert (text, KEY in problem) == (None, False)


def test_a_name_in_the_configuration_leads_nowhere_else(facts: Facts, work: Path, links: Path) -> None:
    (work / "id_rsa").symlink_to("../id_rsa")
    for names in (
        ["../id_rsa"],
        ["id_rsa"],
        ["missing/id_rsa", "id_rsa", str(links / "id_rsa")],
        ["/proc/self/environ"],
    ):
        text, problem = complaint(facts(project_doc_fallback_filenames=names))
        assert text is None
        assert problem.endswith("is not used: its target may not be read as instructions")


def test_denied_instructions_are_not_sent(facts: Facts, work: Path) -> None:
    (work / "AGENTS.md").write_text("not for the model")
    denied = facts().evolve(access=FileAccess.writing(work, deny=[work / "AGENTS.md"]))
    assert complaint(denied)[0] is None


def test_the_persons_own_link_is_followed_wherever_it_leads(facts: Facts, codex_home: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("mine")
    (codex_home / "AGENTS.md").symlink_to("../dotfiles")
    assert sent(facts()) == "mine"


def test_a_pipe_in_place_of_a_file_is_not_waited_for(facts: Facts, codex_home: Path) -> None:
    os.mkfifo(codex_home / "AGENTS.md")
    text, problem = complaint(facts())
    assert text is None
    assert "is not a file" in problem


def test_a_file_of_the_person_that_cannot_be_looked_at_is_reported(facts: Facts, codex_home: Path) -> None:
    (codex_home / "AGENTS.md").symlink_to("AGENTS.md")
    with pytest.raises(CodexError, match=r"AGENTS\.md cannot be read: Too many levels of symbolic links"):
        list(AgentsMd().fragments(facts()))
