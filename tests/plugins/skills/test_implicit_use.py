"""The measurements of skills that are named, and of those that the model uses by itself."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import Measurement, Telemetry
from codex_framework.testing import call, say
from codex_framework.testing.offering import Offer
from tests.plugins.skills.conftest import Skills


class Kept(Telemetry):
    name = "kept"

    def __init__(self) -> None:
        self.found: list[Measurement] = []

    def record(self, measurement: Measurement) -> None:
        if measurement.name == "codex.skill.injected":
            self.found.append(measurement)


def measured(skills: Skills, prompt: str, *replies: Any, **more: Any) -> list[dict[str, Any]]:
    kept = Kept()
    skills.turn(prompt, [*replies, say("Done.")], plugins=[Offer(telemetry=[kept])], **more)
    return [dict(each.attributes) for each in kept.found]


def use(name: str, kind: str) -> dict[str, Any]:
    return {"skill.name": name, "skill.scope": "user", "skill.invocation_type": kind, "status": "ok"}


def command(text: str, **more: Any) -> Any:
    return call("exec_command", cmd=text, login=False, **more)


def test_a_named_skill_is_measured(skills: Skills) -> None:
    skills.write("alpha")
    assert measured(skills, "$alpha") == [use("alpha", "explicit")]


USED = {
    "cat FOLDER/SKILL.md": ["alpha"],
    "sed -n 1,20p FOLDER/SKILL.md": ["alpha"],
    "ls && head -5 'FOLDER/SKILL.md' | wc": ["alpha"],
    "cat FOLDER/SKILL.md; cat FOLDER/SKILL.md": ["alpha"],
    "cat FOLDER/SKILL.md OTHER/SKILL.md": ["alpha", "beta"],
    "python3 -u FOLDER/scripts/run.py --now": ["alpha"],
    "FOLDER/scripts/run.sh": ["alpha"],
    "bash FOLDER/scripts/deep/run.sh": ["alpha"],
    "ls FOLDER/SKILL.md": [],
    "cat FOLDER/other.md": [],
    "cat SKILL.md": [],
    "python3 scripts/run.py": [],
    "echo 'unclosed SKILL.md": [],
    "python3 FOLDER/run.py skills": [],
}


@pytest.mark.parametrize(("text", "names"), USED.items(), ids=USED)
def test_a_command_that_uses_a_skill_is_recognised(skills: Skills, text: str, names: list[str]) -> None:
    alpha, beta = skills.write("alpha"), skills.write("beta")
    script = text.replace("FOLDER", str(alpha.parent)).replace("OTHER", str(beta.parent))
    assert measured(skills, "go", command(script)) == [use(name, "implicit") for name in names]


def test_a_skill_is_measured_once_in_a_turn_and_from_its_folder(skills: Skills) -> None:
    folder = str(skills.write("alpha").parent)
    found = measured(
        skills, "go", command("cat SKILL.md", workdir=folder), command("python3 scripts/x.py", workdir=folder)
    )
    assert found == [use("alpha", "implicit")]


def test_reading_by_a_tool_is_recognised(skills: Skills) -> None:
    file = skills.write("alpha")
    offered = ["framework.plugins.read_file.offer=true"]
    assert measured(skills, "go", call("read_file", file_path=str(file)), config=offered) == [use("alpha", "implicit")]


def test_a_call_stays_as_it_is(skills: Skills) -> None:
    file = skills.write("alpha", body="The body.")
    turn = skills.turn("go", [command(f"cat {file}"), say("Done.")])
    assert "The body." in turn.outputs[0]
