"""``codex-framework skills``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework import CodexError
from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_plugin_skills.cli import skills as skills_command
from tests.plugins.skills.conftest import Skills, injected, lines, write_skill


@pytest.fixture
def cli(skills: Skills, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(skills.project)

    def run(*words: str) -> str:
        environ = {"CODEX_HOME": str(skills.home), "HOME": str(skills.person)}
        config = load_config(cwd=skills.project, environ=environ, overrides=[skills.trusted])
        result = CliRunner().invoke(skills_command, words, obj=LoadContext("skills", config, environ))
        if isinstance(result.exception, CodexError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return str(result.output)

    return run


def test_skills_are_listed_with_their_state(skills: Skills, cli: Callable[..., str]) -> None:
    file = skills.write("alpha", openai="policy: {allow_implicit_invocation: false}")
    shown = write_skill(skills.project / ".agents" / "skills" / "beta", description='"See \\e[31m red"')
    bad = skills.raw("bad", "x")
    (skills.home / "config.toml").write_text("[skills.bundled]\nenabled = false\n")
    assert cli("list").splitlines() == [
        "$beta: See \\x1b[31m red",
        f"   of this project; {shown}",
        "$alpha: Does things.",
        f"   only used if you name it; yours; {file}",
        f"Warning: {bad}: it does not begin with a frontmatter between two lines `---`",
    ]


def test_the_json_is_that_of_codex(skills: Skills, cli: Callable[..., str], anchors: Any) -> None:
    skills.write("alpha", openai="interface: {display_name: A}\ndependencies: {tools: [{type: mcp, value: x}]}")
    entry = json.loads(cli("list", "--json"))
    schema = json.loads((anchors / "app_server_schema.v2.json").read_text())
    import jsonschema

    jsonschema.validate(entry, {**schema["definitions"]["SkillsListEntry"], "definitions": schema["definitions"]})
    known = set(schema["definitions"]["SkillMetadata"]["properties"])
    assert all(set(skill) <= known for skill in entry["skills"])
    assert [skill["name"] for skill in entry["skills"]] == ["alpha", "write-plugin"]


def test_skills_are_switched_off_and_on(skills: Skills, cli: Callable[..., str]) -> None:
    file = skills.write("alpha")
    other = skills.write("beta")
    (skills.home / "config.toml").write_text('# mine\n[skills]\nconfig = [{ name = "gamma", enabled = false }]\n')
    assert cli("disable", "alpha", str(other.parent)) == "Switched 2 skills off.\n"
    turn = skills.turn("$alpha $beta")
    assert (lines(turn), injected(turn)) == ([], [])
    assert "switched off; yours" in cli("list")
    assert cli("enable", "$alpha") == "Switched 1 skill on.\n"
    assert injected(skills.turn("$alpha $beta")) == ["alpha"]
    text = (skills.home / "config.toml").read_text()
    assert "# mine" in text
    assert '"gamma"' in text
    assert text.count(str(file)) == 1


def test_an_unknown_name_is_an_error(cli: Callable[..., str]) -> None:
    with pytest.raises(CodexError) as caught:
        cli("disable", "nothing")
    assert (caught.value.fact, caught.value.slug) == ("there is no skill 'nothing'", "skills")


def test_without_skills_that_is_said(skills: Skills, cli: Callable[..., str]) -> None:
    (skills.home / "config.toml").write_text("[skills.bundled]\nenabled = false\n")
    assert cli("list") == "There are no skills.\n"
