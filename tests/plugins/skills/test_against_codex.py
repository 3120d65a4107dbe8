"""The same skills in Codex 0.169 and here: which are found, what the model is shown, and what a prompt adds."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ResponsesServer, say
from tests.plugins.rollout.conftest import AppServer
from tests.plugins.skills.conftest import Skills, listed, texts, write_skill
from tests.plugins.skills.test_frontmatter import ACCEPTED, REFUSED
from tests.plugins.skills.test_request import answers

HERE_ONLY = ("deep", "endless", "huge")
"""Frontmatter that Codex accepts or fails on in another way: it has no limit of its own."""


class Codex:
    """Runs Codex with the skills of a test, whose home folder is the parent of ``$CODEX_HOME``."""

    def __init__(self, binary: str, skills: Skills) -> None:
        self._binary, self._skills = binary, skills
        skills.person = skills.home.parent
        (skills.home / "config.toml").write_text("[skills.bundled]\nenabled = false\n")

    def list(self) -> Any:
        with ResponsesServer([]) as server, self._app(server) as app:
            (entry,) = app.request("skills/list", cwds=[str(self._skills.project)])["data"]
        return entry

    def prompt(self, text: str) -> list[str]:
        """Return the texts that the model gets for a prompt."""
        with ResponsesServer([say("x")], repeat_last=True) as server:
            with self._app(server) as app:
                settings = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
                thread = app.request("thread/start", cwd=str(self._skills.project), **settings)["thread"]["id"]
                app.turn(thread, text)
            (request,) = [request.json for request in server.requests if request.body]
        return [part["text"] for item in request["input"] if item["type"] == "message" for part in item["content"]]

    def _app(self, server: ResponsesServer) -> AppServer:
        return AppServer(self._binary, self._skills.home, self._skills.project, server.url)


def ours(skills: Skills) -> Any:
    from codex_plugin_skills.request import ListSkills

    (answer,) = answers(skills, ListSkills())
    return answer.skills[0]


def comparable(skills: list[Any], get: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (get(skill, "name"), get(skill, "path"), get(skill, "scope"), get(skill, "enabled")) for skill in skills
    )


def test_the_same_skills_are_found(codex_binary: str, skills: Skills, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", skills.project], check=True)
    for number, (name, (block, *_)) in enumerate((ACCEPTED | REFUSED).items()):
        if name not in HERE_ONLY:
            skills.raw(f"case{number}", f"---\n{block}\n---\nBody.")
    for number, text in enumerate(("", "text", "---\nname: a\n", "\n---\ndescription: d\n---\n", "\ufeff---\n")):
        skills.raw(f"none{number}", text)
    skills.raw("bytes", b"---\ndescription: d\n---\n\xff")
    write_skill(skills.project / ".agents" / "skills" / "agents")
    write_skill(skills.project / ".codex" / "skills" / "codex")
    write_skill(tmp_path / "outside" / "linked")
    (skills.home / "skills" / "link").symlink_to(tmp_path / "outside")
    (skills.home / "skills" / "loop").symlink_to(skills.home / "skills")
    write_skill(skills.home / "skills" / "1/2/3/4/5/6")
    write_skill(skills.home / "skills" / "1/2/3/4/5/6/7")
    write_skill(skills.home / "skills" / ".hidden")
    skills.write("other-product", openai="policy: {products: [chatgpt]}")
    codex = Codex(codex_binary, skills)
    theirs, mine = codex.list(), ours(skills)
    assert comparable(theirs["skills"], dict.get) == comparable(mine.skills, getattr)
    by_path = {skill["path"]: skill["description"] for skill in theirs["skills"]}
    assert by_path == {skill.path: skill.description for skill in mine.skills}
    assert sorted(error["path"] for error in theirs["errors"]) == sorted(error.path for error in mine.errors)


def test_the_same_interfaces_and_needs_are_read(codex_binary: str, skills: Skills) -> None:
    from codex_plugin_skills.wire import entry_wire
    from tests.plugins.skills.test_frontmatter import MANIFEST, WRONG

    subprocess.run(["git", "init", "-q", skills.project], check=True)
    skills.write("whole", openai=MANIFEST)
    for number, (text, _) in enumerate(WRONG.values()):
        skills.write(f"wrong{number}", openai=text)
    codex = Codex(codex_binary, skills)
    theirs = codex.list()["skills"]
    assert sorted(theirs, key=_path) == sorted(entry_wire(ours(skills))["skills"], key=_path)


def _path(skill: Any) -> str:
    return str(skill["path"])


@pytest.mark.parametrize("count", [5, 120, 600])
def test_the_same_skills_are_shown_within_the_same_budget(codex_binary: str, skills: Skills, count: int) -> None:
    subprocess.run(["git", "init", "-q", skills.project], check=True)
    for number in range(count):
        skills.write(f"s{number:04}", name=f"skill-{number:04}", description=f"word{number} " * 50)
    theirs = next(text for text in Codex(codex_binary, skills).prompt("hi") if text.startswith("<skills_instructions>"))
    mine = listed(skills.turn("hi", config=['model="gpt-5.5"']))
    their_lines, my_lines = _lines(theirs), _lines(mine)
    assert len(their_lines) == len(my_lines)
    assert [line.split(":")[0] for line in their_lines] == [line.split(":")[0] for line in my_lines]
    lengths = [abs(len(one) - len(other)) for one, other in zip(their_lines, my_lines, strict=True)]
    assert max(lengths) <= 4
    if count == 5:
        assert their_lines == my_lines


def _lines(text: str) -> list[str]:
    return [line for line in text.partition("### How")[0].split("\n") if re.fullmatch(r"- .*\(file: .*\)", line)]


def test_a_prompt_adds_the_same(codex_binary: str, skills: Skills) -> None:
    subprocess.run(["git", "init", "-q", skills.project], check=True)
    skills.write("alpha", body="# Alpha\n\n$1\n\n")
    write_skill(skills.project / ".agents" / "skills" / "gamma")
    text = "use $alpha and $gamma, $nothing"
    theirs = Codex(codex_binary, skills).prompt(text)
    mine = texts(skills.turn(text), "user")
    at = theirs.index(text)
    assert theirs[at:] == mine[mine.index(text) :]
