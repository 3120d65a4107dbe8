"""Skills that an input names. The cases were compared with Codex 0.169."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework.contract.protocol.ops import MentionInput, SkillInput, TextInput, UserInputOp
from codex_framework.contract.protocol.wire import read_op
from codex_framework.testing import say
from tests.plugins.skills.conftest import Skills, injected, texts, warned, write_skill

NAMES = (
    "alpha",
    "beta",
    "al",
    "alpha-x",
    "PATH",
    "Upper",
    "snake_case",
    "a.b",
    "with space",
    "pl:ug",
    "ünï",
    "1num",
    "path",
)

NAMED = {
    "$alpha": ["alpha"],
    "$alpha-x": ["alpha-x"],
    "($alpha)": ["alpha"],
    "$alpha.": ["alpha"],
    "$Alpha": [],
    "\\$alpha": ["alpha"],
    "$$alpha": ["alpha"],
    "x$alpha": ["alpha"],
    "`$alpha`": ["alpha"],
    "$PATH $path": [],
    "$Upper": ["Upper"],
    "$upper": [],
    "$snake_case": ["snake_case"],
    "$a.b": [],
    "$with space": [],
    "$pl:ug": ["pl:ug"],
    "$ünï": [],
    "$1num": ["1num"],
    "$alpha $alpha $beta": ["alpha", "beta"],
    "$beta $alpha": ["alpha", "beta"],
    "[$alpha](ALPHA)": ["alpha"],
    "[$whatever](ALPHA)": ["alpha"],
    "[alpha](ALPHA)": [],
    "[$alpha](skill://ALPHA)": ["alpha"],
    "[$alpha](/nope/SKILL.md)": [],
    "[$alpha](app://x)": [],
    "[$alpha] (x)": [],
    "$alpha/beta": ["alpha"],
    "$alpha's": ["alpha"],
    "$al pha": ["al"],
    "$alpha:": [],
    "\n\t$alpha\n": ["alpha"],
    "$alphabet": [],
    "$alpha_x": [],
    "é$alpha": ["alpha"],
    "${alpha}": [],
    "$ alpha": [],
    "$alpha$beta": ["alpha", "beta"],
    "alpha": [],
}


def test_names_are_found_as_in_codex(skills: Skills) -> None:
    for number, name in enumerate(NAMES):
        write_skill(skills.home / "skills" / f"s{number}", name)
    alpha = str(skills.home / "skills" / "s0" / "SKILL.md")

    async def main() -> dict[str, list[str]]:
        found = {}
        async with skills.kernel([say("x")] * len(NAMED)) as kernel:
            for prompt in NAMED:
                found[prompt] = injected(await kernel.run_turn(prompt.replace("ALPHA", alpha)))
        return found

    assert asyncio.run(main()) == NAMED


def test_the_whole_file_is_added_after_the_words_of_the_user(skills: Skills) -> None:
    file = skills.write("alpha", body="# Do it\n\n$1 stays   \n\n")
    turn = skills.turn("use $alpha")
    assert texts(turn, "user")[-2:] == [
        "use $alpha",
        f"<skill>\n<name>alpha</name>\n<path>{file}</path>\n{file.read_text()}\n</skill>",
    ]
    assert texts(turn, "assistant") == ["Done."]


def test_a_name_of_two_skills_is_not_used_and_told(skills: Skills) -> None:
    files = [skills.write("one", name="twin"), skills.write("two", name="twin")]
    turn = skills.turn("$twin")
    assert injected(turn) == []
    assert warned(turn) == [f"$twin names 2 skills: {files[0]} and {files[1]}. Write [$twin](PATH) to choose one"]
    chosen = skills.turn(f"[$twin]({files[1]}) and $twin")
    assert (injected(chosen), warned(chosen)) == (["twin"], [])
    assert str(files[1]) in texts(chosen, "user")[-1]


def test_a_skill_that_is_switched_off_is_not_added(skills: Skills) -> None:
    file = skills.write("alpha")
    turn = skills.turn(f"$alpha [$alpha]({file})", config=['skills.config=[{name="alpha", enabled=false}]'])
    assert injected(turn) == []


def test_a_skill_for_explicit_use_is_added_but_not_listed(skills: Skills) -> None:
    skills.write("alpha", openai="policy:\n  allow_implicit_invocation: false\n")
    turn = skills.turn("$alpha")
    assert injected(turn) == ["alpha"]
    assert not any(text.startswith("<skills_instructions>") for text in texts(turn))


async def _submitted(kernel: Any, *items: Any) -> list[Any]:
    thread = await kernel.start_thread()
    events = thread.events()
    await thread.submit(UserInputOp(items))
    await thread.settled()
    told = []
    async for event in events:
        told.append(event.msg)
        if event.msg.type == "task_complete":
            break
    return [list(thread.history.items), told]


def test_an_item_of_kind_skill_is_added_by_its_path(skills: Skills) -> None:
    file = skills.write("alpha")
    skills.write("beta")

    async def main() -> Any:
        async with skills.kernel([say("x")] * 4) as kernel:
            both = await _submitted(kernel, TextInput("x $beta"), SkillInput("wrong name", str(file)))
            alone = await _submitted(kernel, SkillInput("alpha", str(file)))
            missing = await _submitted(kernel, TextInput("y"), SkillInput("none", "/no/SKILL.md"))
            other = await _submitted(kernel, TextInput("z"), MentionInput("alpha", f"skill://{file}"))
        return both, alone, missing, other

    both, alone, missing, other = asyncio.run(main())
    assert [_first(item)[:26] for item in both[0][-4:-1]] == [
        "x $beta",
        "<skill>\n<name>alpha</name>",
        "<skill>\n<name>beta</name>\n",
    ]
    assert [_first(item)[:26] for item in alone[0] if item.role == "user"][1:] == ["<skill>\n<name>alpha</name>"]
    warnings = [event.message for event in missing[1] if event.type == "warning"]
    assert "/no/SKILL.md is not a skill that can be used here" in warnings
    assert [_first(item) for item in other[0][-2:]] == ["z", "x"]


def _first(item: Any) -> str:
    return str(item.content[0].text)


def test_items_of_skills_are_read_from_the_wire() -> None:
    raw = {
        "type": "user_input",
        "items": [{"type": "skill", "name": "a", "path": "/s"}, {"type": "mention", "name": "b", "path": "app://x"}],
    }
    op: Any = read_op(raw)
    assert op.items == (SkillInput("a", "/s"), MentionInput("b", "app://x"))


def test_input_during_a_turn_can_name_a_skill(skills: Skills) -> None:
    skills.write("alpha")

    async def main() -> list[Any]:
        async with skills.kernel([say("one"), say("two"), say("three")]) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            await thread.submit(UserInputOp((TextInput("now $alpha"),)))
            await thread.settled()
            return list(thread.history.items)

    found = [_first(item) for item in asyncio.run(main()) if item.type == "message" and item.role == "user"]
    assert found[-2] == "now $alpha"
    assert found[-1].startswith("<skill>\n<name>alpha</name>")


NEEDS = """
dependencies:
  tools:
    - {type: env_var, value: SKILL_TOKEN, description: the token}
    - {type: mcp, value: github, url: "https://github.example/mcp"}
    - {type: mcp, value: files, command: files-server}
    - {type: cli, value: gh}
"""


def test_what_a_skill_needs_and_does_not_have_is_told(skills: Skills) -> None:
    skills.write("alpha", openai=NEEDS)
    turn = skills.turn("$alpha")
    assert injected(turn) == ["alpha"]
    missing = "the skill alpha needs the MCP server"
    assert warned(turn) == [
        "the skill alpha needs the environment variable SKILL_TOKEN (the token), which is not set. Set it before you start",
        f"{missing} github, which is not configured. To add it: codex-framework mcp add github --url https://github.example/mcp",
        f"{missing} files, which is not configured. To add it: codex-framework mcp add files -- files-server",
    ]


@pytest.mark.parametrize(
    "servers",
    [
        'github={url="https://other/"}, files={command="x"}',
        'a={url="https://github.example/mcp"}, b={command="files-server"}',
    ],
)
def test_a_need_is_met_by_name_address_or_command(servers: str) -> None:
    import tomllib

    from codex_plugin_skills.events import SkillMetadata
    from codex_plugin_skills.manifest import read_manifest
    from codex_plugin_skills.needs import unmet_needs
    from codex_plugin_skills.reading import Skill

    needs = read_manifest(NEEDS, "/s").dependencies
    skill = Skill(
        metadata=SkillMetadata(name="a", description="d", dependencies=needs, path="/s/SKILL.md", scope="user"),
        root="/",
    )
    config = tomllib.loads(f"mcp_servers = {{{servers}}}")
    assert unmet_needs(skill, config, {"SKILL_TOKEN": "x"}) == []
