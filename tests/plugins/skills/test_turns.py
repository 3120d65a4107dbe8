"""Skills over several turns, and files that cannot be used."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest

from codex_framework import Agent, ToolContext, tool
from codex_framework.testing import call, say
from tests.plugins.skills.conftest import Skills, injected, lines, listed, texts, warned


def run_turns(skills: Skills, *changes: Any) -> list[Any]:
    """Run a turn of one thread after each change. Return the texts of the skill lists that the model has after each."""

    async def main() -> list[Any]:
        found = []
        async with skills.kernel([say("x")] * len(changes)) as kernel:
            thread = await kernel.start_thread()
            for change in changes:
                change()
                await thread.run("hello")
                history = [
                    part.text for item in thread.history.items if item.type == "message" for part in item.content
                ]
                found.append([text for text in history if text.startswith("<skills_instructions>")])
        return found

    return asyncio.run(main())


def test_changes_between_turns_are_seen(skills: Skills) -> None:
    file = skills.write("alpha", description="One.")
    same, added, changed, removed, none = run_turns(
        skills,
        lambda: None,
        lambda: skills.write("beta"),
        lambda: file.write_text(file.read_text().replace("One.", "Two.")),
        lambda: shutil.rmtree(file.parent),
        lambda: shutil.rmtree(skills.home / "skills"),
    )
    assert [len(each) for each in (same, added, changed, removed, none)] == [1, 2, 3, 4, 5]
    assert "- alpha: One. (file" in same[-1]
    assert "- beta:" not in same[-1]
    assert "- beta:" in added[-1]
    assert "- alpha: Two. (file" in changed[-1]
    assert "- alpha:" not in removed[-1]
    assert "There are no skills any more." in none[-1]


def test_without_changes_the_list_is_sent_once(skills: Skills) -> None:
    skills.write("alpha")
    assert [len(each) for each in run_turns(skills, *[lambda: None] * 3)] == [1, 1, 1]


def test_files_that_do_not_change_are_not_read_again(skills: Skills, monkeypatch: pytest.MonkeyPatch) -> None:
    from codex_plugin_skills import catalog

    reads = []
    real = catalog.read_skill
    monkeypatch.setattr(catalog, "read_skill", lambda *given: reads.append(given[0]) or real(*given))
    file = skills.write("alpha")
    run_turns(skills, lambda: None, lambda: None, lambda: skills.write("beta"))
    assert [path for path in reads if path == str(file)] == [str(file)] * 2


def test_a_manifest_that_changes_is_read(skills: Skills) -> None:
    file = skills.write("alpha", openai="policy: {allow_implicit_invocation: true}")
    manifest = file.parent / "agents" / "openai.yaml"
    hidden = "policy: {allow_implicit_invocation: false}"
    first, second = run_turns(skills, lambda: None, lambda: manifest.write_text(hidden))
    assert "- alpha:" in first[-1]
    assert "There are no skills any more." in second[-1]


def test_a_manifest_that_appears_is_read(skills: Skills) -> None:
    skills.write("alpha")
    skills.write("beta")
    hidden = "policy: {allow_implicit_invocation: false}"
    first, second = run_turns(skills, lambda: None, lambda: skills.write("alpha", openai=hidden))
    assert "- alpha:" in first[-1]
    assert "- alpha:" not in second[-1]


BAD = {
    "nothing": (b"", "it does not begin with a frontmatter between two lines `---`"),
    "frontmatter": (b"---\nname: [a\n---\n", "its frontmatter is not valid YAML"),
    "bytes": (b"---\nname: a\ndescription: d\n---\nb\xff", "it is not UTF-8: the byte at position 32 does not fit"),
    "binary": (bytes(range(256)) * 10, "it is not UTF-8"),
    "huge": (b"---\nname: a\ndescription: d\n---\n" + b"x" * (1 << 20), "it has more than 1 MiB"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_one_line_and_the_turn_goes_on(skills: Skills, data: bytes, reason: str) -> None:
    file = skills.raw("bad", data)
    skills.write("good")
    turn = skills.turn("$good $bad $a")
    (text,) = warned(turn)
    assert text.startswith(f"skills: {file}: {reason}")
    assert "\n" not in text
    assert (turn.final_message, injected(turn), len(lines(turn))) == ("Done.", ["good"], 1)


def test_a_problem_is_told_once_in_a_thread(skills: Skills) -> None:
    skills.raw("bad", "x")

    async def main() -> list[str]:
        told = []
        async with skills.kernel([say("x")] * 2) as kernel:
            thread = await kernel.start_thread()
            for _ in range(2):
                result = await thread.run("hello")
                told += [event.message for event in result.events if event.type == "warning"]
        return [text for text in told if text.startswith("skills:")]

    assert len(asyncio.run(main())) == 1


def test_many_problems_are_counted(skills: Skills) -> None:
    for number in range(15):
        skills.raw(f"bad{number:02}", "x")
    told = warned(skills.turn())
    assert len(told) == 11
    assert told[-1] == "5 more problems with skills: codex-framework skills list"


def test_a_manifest_that_cannot_be_used_leaves_the_skill(skills: Skills) -> None:
    file = skills.write("alpha", openai="interface: [")
    turn = skills.turn()
    assert len(lines(turn)) == 1
    (text,) = warned(turn)
    assert text.startswith(f"skills: {file.parent}/agents/openai.yaml: it is not valid YAML: ")


def test_a_path_with_control_characters_is_not_used(skills: Skills) -> None:
    skills.write("a\nb", name="alpha")
    turn = skills.turn("$alpha")
    assert (lines(turn), injected(turn)) == ([], [])
    assert "its path has control characters" in warned(turn)[0]


def test_a_skill_that_vanishes_before_it_is_read_is_told(skills: Skills, monkeypatch: pytest.MonkeyPatch) -> None:
    from codex_plugin_skills import mentions

    file = skills.write("alpha")
    real = mentions.mentioned

    def slow(*given: Any) -> Any:
        file.unlink(missing_ok=True)
        return real(*given)

    monkeypatch.setattr(mentions, "mentioned", slow)
    turn = skills.turn("$alpha")
    assert injected(turn) == []
    assert warned(turn) == [f"the skill alpha is left out: {file}: it cannot be read: No such file or directory"]


@pytest.mark.slow
def test_skills_of_10000_folders_leave_the_turn_unharmed(skills: Skills) -> None:
    root = skills.home / "skills"
    for number in range(2500):
        folder = root / f"s{number:05}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: skill-{number}\ndescription: Does {number}.\n---\n")
        for extra in ("a", "b", "c"):
            (folder / extra).touch()
    (root / "loop").symlink_to(root)
    turn = skills.turn("$skill-7")
    assert (turn.final_message, injected(turn)) == ("Done.", ["skill-7"])
    told = warned(turn)
    assert any("there are more than 2000 folders" in text for text in told)
    assert any("All descriptions are left out" in text for text in told)
    assert len(told) == 2


def test_children_have_skills_and_repeat_no_warnings(skills: Skills) -> None:
    skills.write("alpha")
    skills.raw("bad", "x")
    seen: list[Any] = []

    @tool
    async def delegate(context: ToolContext) -> str:
        """Let a child work."""
        child = await context.spawn(Agent(name="helper"))
        result = await child.run("use $alpha")
        seen.extend(event for event in result.events if event.type == "warning")
        return result.final_message or ""

    replies = [call("delegate"), say("child"), say("parent")]
    run = skills.turn("hello", replies, tools=[delegate])
    assert run.outputs == ("child",)
    prompt = [part.text for item in run.requests[1].prompt.items if item.type == "message" for part in item.content]
    assert any(text.startswith("<skill>\n<name>alpha</name>") for text in prompt)
    assert any("- alpha:" in text for text in prompt)
    assert not [event for event in seen if event.message.startswith("skills:")]
    assert len([text for text in warned(run) if text.startswith("skills:")]) == 1


def test_an_agent_can_do_without_the_list(skills: Skills) -> None:
    skills.write("alpha")
    turn = skills.turn(agent=Agent(name="bare", context=("environment",)))
    assert listed(turn) == ""
    assert texts(turn, "user")
