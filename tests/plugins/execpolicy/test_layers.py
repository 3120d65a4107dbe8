"""Which files hold where, and what is told of those that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, CodexError, ContextFacts, FileAccess, Fragment
from codex_framework.protocol.policies import WorkspaceWrite
from codex_framework.roles.providers import ModelInfo
from codex_plugin_execpolicy.announcement import RulesAnnouncement
from codex_plugin_execpolicy.layers import RuleLayers


def write(folder: Path, name: str, *programs: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f'prefix_rule(["{program}"])\n' for program in programs))


def programs(layers: RuleLayers, cwd: Path, home: Path | None, config: Any = None) -> list[str]:
    return [rule.program for rule in layers.at(cwd, home, {} if config is None else config).rules.prefix_rules]


def trusted(folder: Path, level: str = "trusted") -> dict[str, Any]:
    return {"projects": {str(folder): {"trust_level": level}}}


@pytest.fixture
def filled(tmp_path: Path, home: Path, work: Path) -> Path:
    """A checkout with rules of all layers; its subfolder."""
    write(tmp_path / "etc", "z.rules", "system")
    write(home / "rules", "b.rules", "b")
    write(home / "rules", "a.rules", "a")
    write(home / "rules", "a.txt", "no-rules")
    (work / ".git").mkdir()
    write(work / ".codex" / "rules", "x.rules", "project")
    write(work / "sub" / ".codex" / "rules", "x.rules", "sub")
    return work / "sub"


def test_layers_go_from_the_system_to_the_folder_and_files_by_name(
    layers: RuleLayers, home: Path, work: Path, filled: Path
) -> None:
    assert programs(layers, filled, home, trusted(work)) == ["system", "a", "b", "project", "sub"]
    assert programs(layers, work, home, trusted(work)) == ["system", "a", "b", "project"]


@pytest.mark.parametrize("config", [{}, {"projects": 1}, {"projects": {"/x": {"trust_level": "trusted"}}}])
def test_rules_of_a_project_that_nobody_trusts_do_not_count(
    layers: RuleLayers, home: Path, filled: Path, config: Any
) -> None:
    assert programs(layers, filled, home, config) == ["system", "a", "b"]


def test_distrust_of_the_folder_itself_goes_before_trust_of_the_checkout(
    layers: RuleLayers, home: Path, work: Path, filled: Path
) -> None:
    config = {"projects": {**trusted(work)["projects"], **trusted(filled, "untrusted")["projects"]}}
    assert programs(layers, filled, home, config) == ["system", "a", "b"]


def test_rules_can_be_switched_off_but_not_those_of_the_system(
    layers: RuleLayers, home: Path, work: Path, filled: Path
) -> None:
    config = {**trusted(work), "framework": {"plugins": {"execpolicy": {"ignore_rules": True}}}}
    assert programs(layers, filled, home, config) == ["system"]


def test_a_home_in_the_project_counts_once(layers: RuleLayers, work: Path) -> None:
    write(work / ".codex" / "rules", "x.rules", "own")
    assert programs(layers, work, work / ".codex", trusted(work)) == ["own"]


def test_files_are_read_anew_when_they_change(layers: RuleLayers, home: Path, work: Path) -> None:
    config: dict[str, Any] = {}
    first = layers.at(work, home, config)
    assert layers.at(work, home, config) is first
    write(home / "rules", "a.rules", "a")
    assert programs(layers, work, home, config) == ["a"]
    write(home / "rules", "a.rules", "a", "bb")
    assert programs(layers, work, home, config) == ["a", "bb"]
    (home / "rules" / "a.rules").unlink()
    assert programs(layers, work, home, config) == []


def test_a_file_with_a_mistake_is_left_out_and_told_of(layers: RuleLayers, home: Path, work: Path) -> None:
    write(home / "rules", "a.rules", "a")
    bad, folder = home / "rules" / "b.rules", home / "rules" / "c.rules"
    bad.write_text('prefix_rule(["b"])\nprefix_rule([])')
    folder.mkdir()
    loaded = layers.at(work, home, {})
    assert [rule.program for rule in loaded.rules.prefix_rules] == ["a"]
    assert loaded.problems == (
        f"{bad}:2:1: pattern cannot be empty; none of the rules in {bad} are used",
        f"the rules file {folder} cannot be read: Is a directory; none of the rules in {folder} are used",
    )


def test_a_rules_folder_that_is_a_file_or_a_loop_holds_no_rules(layers: RuleLayers, home: Path, work: Path) -> None:
    (home / "rules").rmdir()
    (home / "rules").write_text("x")
    assert programs(layers, work, home) == []
    (home / "rules").unlink()
    (home / "rules").symlink_to(home / "rules")
    assert programs(layers, work, home) == []


def facts(cwd: Path, home: Path, thread_id: str = "one") -> ContextFacts:
    return ContextFacts(
        thread_id=thread_id,
        cwd=cwd,
        codex_home=home,
        shell="/bin/sh",
        model=ModelInfo(slug="m"),
        approval_policy=ApprovalPolicy.ON_REQUEST,
        sandbox_policy=WorkspaceWrite(),
        access=FileAccess(),
        config={},
        first=True,
    )


def test_the_model_hears_of_allowed_prefixes(layers: RuleLayers, home: Path, work: Path) -> None:
    source = RulesAnnouncement(layers)
    assert list(source.fragments(facts(work, home))) == []
    (home / "rules" / "a.rules").write_text('prefix_rule(["git", ["push", "fetch"]])\nprefix_rule(["b"], "prompt")')
    start, end = "<allowed_commands>", "</allowed_commands>"
    text = (
        f"{start}\nCommands that begin with these words are allowed, and run outside of the sandbox:\n"
        f'- ["git", ["push", "fetch"]]\n{end}'
    )
    assert list(source.fragments(facts(work, home))) == [
        Fragment(role="developer", text=text, start=start, end=end, order=90)
    ]


def test_of_many_prefixes_the_first_hundred_are_told(layers: RuleLayers, home: Path, work: Path) -> None:
    write(home / "rules", "a.rules", *(f"p{number:03}" for number in range(101)))
    (fragment,) = RulesAnnouncement(layers).fragments(facts(work, home))
    assert fragment.text.count("\n- ") == 100
    assert fragment.text.endswith('- ["p099"]\n...\n[Some commands were truncated]\n</allowed_commands>')


def test_the_person_hears_of_wrong_files_once_a_thread(layers: RuleLayers, home: Path, work: Path) -> None:
    source = RulesAnnouncement(layers)
    (home / "rules" / "a.rules").write_text("x")
    for thread_id in ("one", "two"):
        with pytest.raises(CodexError, match="only calls of prefix_rule"):
            list(source.fragments(facts(work, home, thread_id)))
        assert list(source.fragments(facts(work, home, thread_id))) == []
