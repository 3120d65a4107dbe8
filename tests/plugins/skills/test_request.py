"""The op ``list_skills``, on the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from codex_framework.contract.protocol.wire import read_event, to_wire
from codex_framework.testing import say
from codex_plugin_skills.events import ListSkillsResponseEvent
from codex_plugin_skills.request import ListSkills
from tests.plugins.skills.conftest import Skills, write_skill


def answers(skills: Skills, *ops: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with skills.kernel([say("x")], "skills.bundled.enabled=false") as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            found = []
            for op in ops:
                submission = await thread.submit(op)
                async for event in events:
                    if event.id == submission:
                        found.append(event.msg)
                        break
            return found

    return asyncio.run(main())


def test_the_skills_of_the_thread_are_listed(skills: Skills) -> None:
    skills.write(
        "alpha",
        openai="interface: {display_name: Alpha, icon_small: assets/a.png}\npolicy: {allow_implicit_invocation: false}",
    )
    file = skills.write("beta", openai="dependencies: {tools: [{type: env_var, value: X}]}")
    bad = skills.raw("bad", "x")
    (answer,) = answers(skills, ListSkills())
    folder = skills.home / "skills" / "alpha"
    interface = {"display_name": "Alpha", "icon_small": f"{folder}/assets/a.png"}
    common = {"description": "Does things.", "scope": "user", "enabled": True}
    assert to_wire(answer) == {
        "type": "list_skills_response",
        "skills": [
            {
                "cwd": str(skills.project),
                "skills": [
                    {"name": "alpha", **common, "interface": interface, "path": f"{folder}/SKILL.md"},
                    {
                        "name": "beta",
                        **common,
                        "dependencies": {"tools": [{"type": "env_var", "value": "X"}]},
                        "path": str(file),
                    },
                ],
                "errors": [
                    {"path": str(bad), "message": "it does not begin with a frontmatter between two lines `---`"}
                ],
            }
        ],
    }
    assert read_event(to_wire(answer), {"list_skills_response": ListSkillsResponseEvent}) == answer


def test_other_folders_are_listed_with_their_own_trust(skills: Skills, tmp_path: Path) -> None:
    write_skill(skills.project / ".agents" / "skills" / "trusted")
    write_skill(tmp_path / "other" / ".agents" / "skills" / "distrusted")
    (answer,) = answers(skills, ListSkills((str(skills.project), str(tmp_path / "other")), force_reload=True))
    assert [[skill.name for skill in entry.skills] for entry in answer.skills] == [["trusted"], []]
    assert "you have not trusted this project" in answer.skills[1].errors[0].message


def test_a_relative_folder_is_an_error(skills: Skills) -> None:
    (answer,) = answers(skills, ListSkills(("here",)))
    assert (answer.type, answer.message) == (
        "error",
        "'here' is not an absolute path. Name absolute folders in `cwds`.",
    )


def test_the_op_is_made_by_its_tag(skills: Skills) -> None:
    async def main() -> Any:
        async with skills.kernel([]) as kernel:
            return kernel.op("list_skills", force_reload=True)

    assert asyncio.run(main()) == ListSkills((), force_reload=True)
