"""Which files hold where, and what is told of those that cannot be used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, CodexError, FileAccess, Fragment, TurnFacts, Verdict
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import GranularApproval, WorkspaceWrite
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.testing import turn_facts
from codex_plugin_execpolicy.announcement import RulesAnnouncement
from codex_plugin_execpolicy.layers import RuleLayers

ASK, FORBID = Verdict.ASK, Verdict.FORBID


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
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main")
    write(work / ".codex" / "rules", "x.rules", "project")
    write(work / "sub" / ".codex" / "rules", "x.rules", "sub")
    return work / "sub"


def test_layers_go_from_the_system_to_the_folder_and_files_by_name(
    layers: RuleLayers, home: Path, work: Path, filled: Path
) -> None:
    both = {"projects": {**trusted(work)["projects"], **trusted(filled)["projects"]}}
    assert programs(layers, filled, home, both) == ["system", "a", "b", "project", "sub"]
    assert programs(layers, work, home, trusted(work)) == ["system", "a", "b", "project"]


def test_of_folders_that_are_not_trusted_themselves_only_rules_that_ask_or_forbid_count(
    layers: RuleLayers, home: Path, work: Path, filled: Path
) -> None:
    """A command may have written them in an earlier session, in which the folder was a part of the workspace."""
    rules = 'prefix_rule(["ask"], "prompt")\nprefix_rule(["never"], "forbidden")\nprefix_rule(["evil"])\n'
    (filled / ".codex" / "rules" / "y.rules").write_text(rules)
    assert programs(layers, filled, home, trusted(work)) == ["system", "a", "b", "project", "ask", "never"]


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
    tmp_path: Path, home: Path, work: Path, filled: Path
) -> None:
    ignoring = RuleLayers(str(tmp_path / "etc"), ignore_rules=True)
    assert programs(ignoring, filled, home, trusted(work)) == ["system"]


def test_a_thread_with_its_own_configuration_switches_them_off_for_itself(
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
        f"{bad}:2: pattern cannot be empty; what {bad} allows is ignored",
        f"the rules file {folder} cannot be read: Is a directory; what {folder} allows is ignored",
    )


@pytest.mark.parametrize(
    "mistake", ["prefix_rule([", "nonsense", "x = )", 'prefix_rule(["b"], match=["c"])', "\0", "(" * 300, "\udcff"]
)
def test_what_a_file_with_a_mistake_forbids_or_asks_about_still_holds(
    layers: RuleLayers, home: Path, work: Path, mistake: str
) -> None:
    text = (
        'words = ["c"]\nprefix_rule(\n  pattern=["a"],\n  decision="forbidden",\n)\n'
        f'prefix_rule(words, "prompt")\n{mistake}\n'
        'prefix_rule(["allowed"])\nnetwork_rule("no.example", "https", "deny")\n'
        'network_rule("yes.example", "https", "allow")\n'
    )
    (home / "rules" / "a.rules").write_bytes(text.encode(errors="surrogateescape"))
    loaded = layers.at(work, home, {})
    assert {rule.program: rule.decision for rule in loaded.rules.prefix_rules} == {"a": FORBID, "c": ASK}
    assert [rule.host for rule in loaded.rules.network] == ["no.example"]
    assert len(loaded.problems) == 1


def test_a_change_within_the_clocks_step_is_seen(layers: RuleLayers, home: Path, work: Path) -> None:
    file = home / "rules" / "a.rules"
    for number in range(200):
        file.write_text(
            f'prefix_rule(["p{number:03}"])'
        )  # always of one size, and faster than the clock of the file system
        assert programs(layers, work, home, {}) == [f"p{number:03}"]


def test_a_change_that_keeps_size_and_time_is_seen(layers: RuleLayers, home: Path, work: Path) -> None:
    file, config = home / "rules" / "a.rules", {"x": 1}
    write(home / "rules", "a.rules", "a")
    old = file.stat()
    for program in ("b", "c"):
        programs(layers, work, home, config)
        write(home / "rules", "a.rules", program)
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
        assert programs(layers, work, home, config) == [program]


def test_a_worktree_is_trusted_as_its_main_checkout_is(
    tmp_path: Path, layers: RuleLayers, home: Path, work: Path
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q", str(work)], check=True)
    write(work / ".codex" / "rules", "x.rules", "main")
    subprocess.run([*git, "add", "-f", "."], cwd=work, check=True)
    subprocess.run([*git, "commit", "-qm", "a"], cwd=work, check=True)
    tree = tmp_path / "tree"
    subprocess.run([*git, "worktree", "add", "-q", str(tree)], cwd=work, check=True)
    assert programs(layers, tree, home, trusted(work)) == ["main"]
    assert programs(layers, tree, home, trusted(work, "untrusted")) == []
    claim = tmp_path / "claim"
    write(claim / ".codex" / "rules", "x.rules", "claimed")
    (claim / ".git").write_text((tree / ".git").read_text())
    assert programs(layers, claim, home, trusted(work)) == []


def test_the_markers_of_a_project_say_where_it_begins(layers: RuleLayers, home: Path, work: Path) -> None:
    below = work / "sub"
    (work / "here").mkdir()
    write(work / ".codex" / "rules", "x.rules", "project")
    write(below / ".codex" / "rules", "x.rules", "sub")
    both = {"projects": {**trusted(work)["projects"], **trusted(below)["projects"]}}
    config = {**both, "project_root_markers": ["here"]}
    assert programs(layers, below, home, config) == ["project", "sub"]
    assert programs(layers, below, home, trusted(below)) == ["sub"]


REQUIREMENTS = """
allowed_approval_policies = ["on-request"]
[rules]
prefix_rules = [
  { pattern = [{ any_of = ["npm", "pnpm"] }, { token = "publish" }], decision = "forbidden", justification = "ask first" },
  { pattern = [{ token = "ssh" }], decision = "prompt" },
]
"""


def test_the_administrators_requirements_hold_rules_too(tmp_path: Path, home: Path, work: Path) -> None:
    layers, config = RuleLayers(str(tmp_path / "etc"), ignore_rules=True), dict[str, Any]()
    assert programs(layers, work, home, config) == []
    (tmp_path / "requirements.toml").write_text(REQUIREMENTS)
    loaded = layers.at(work, home, config)
    assert loaded.problems == ()
    assert [(rule.program, rule.rest, rule.decision, rule.justification) for rule in loaded.rules.prefix_rules] == [
        ("npm", (("publish",),), FORBID, "ask first"),
        ("pnpm", (("publish",),), FORBID, "ask first"),
        ("ssh", (), ASK, None),
    ]


@pytest.mark.parametrize(
    ("entry", "fact"),
    [
        ('{ pattern = [{ token = "a" }], decision = "allow" }', "the decision must be `prompt` or `forbidden`"),
        ('{ pattern = [{ token = "a" }] }', "the decision must be `prompt` or `forbidden`"),
        ('{ pattern = [{ token = 1 }], decision = "prompt" }', 'a word is { token = "..." }'),
        ('{ pattern = [{ any_of = [] }], decision = "prompt" }', 'a word is { token = "..." }'),
        ('{ pattern = [], decision = "prompt" }', "the pattern must be an array with at least one word"),
        (
            '{ pattern = [{ token = "a" }], decision = "prompt", justification = " " }',
            "the justification must be a string",
        ),
        ('"a"', "must be a table"),
    ],
)
def test_a_wrong_requirement_is_told_and_the_others_hold(
    tmp_path: Path, layers: RuleLayers, home: Path, work: Path, entry: str, fact: str
) -> None:
    right = '{ pattern = [{ token = "ssh" }], decision = "prompt" }'
    (tmp_path / "requirements.toml").write_text(f"[rules]\nprefix_rules = [{entry}, {right}]")
    loaded = layers.at(work, home, {})
    assert [rule.program for rule in loaded.rules.prefix_rules] == ["ssh"]
    (problem,) = loaded.problems
    assert f"requirements.toml: `rules.prefix_rules`, number 1: {fact}" in problem


@pytest.mark.parametrize("text", ["[rules", "rules = 1", "[rules]\nprefix_rules = 1", "\udcff"])
def test_requirements_that_cannot_be_read_are_told(
    tmp_path: Path, layers: RuleLayers, home: Path, work: Path, text: str
) -> None:
    (tmp_path / "requirements.toml").write_bytes(text.encode(errors="surrogateescape"))
    loaded = layers.at(work, home, {})
    assert len(loaded.problems) == 1
    assert not loaded.rules


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_that_may_not_be_looked_into_is_told(layers: RuleLayers, home: Path, work: Path) -> None:
    folder = home / "rules"
    folder.chmod(0)
    try:
        assert [problem for problem in layers.at(work, home, {}).problems if str(folder) in problem]
    finally:
        folder.chmod(0o700)


def test_a_rules_folder_that_is_a_file_or_a_loop_holds_no_rules(layers: RuleLayers, home: Path, work: Path) -> None:
    (home / "rules").rmdir()
    (home / "rules").write_text("x")
    assert programs(layers, work, home) == []
    (home / "rules").unlink()
    (home / "rules").symlink_to(home / "rules")
    assert programs(layers, work, home) == []


def facts(
    cwd: Path, home: Path, thread_id: str = "one", policy: ApprovalPolicy | GranularApproval = ApprovalPolicy.ON_REQUEST
) -> TurnFacts:
    return turn_facts(
        thread_id=thread_id,
        cwd=cwd,
        codex_home=home,
        shell="/bin/sh",
        model=ModelInfo(slug="m"),
        approval_policy=policy,
        permissions=permissions_of(WorkspaceWrite()),
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
        Fragment(role="developer", text=text, start=start, end=end, order=1)
    ]


@pytest.mark.parametrize(
    "policy",
    [
        ApprovalPolicy.NEVER,
        GranularApproval(sandbox_approval=False, rules=False, mcp_elicitations=True),
    ],
)
def test_where_nobody_can_be_asked_prefixes_are_not_told(
    layers: RuleLayers, home: Path, work: Path, policy: Any
) -> None:
    write(home / "rules", "a.rules", "a")
    assert list(RulesAnnouncement(layers).fragments(facts(work, home, policy=policy))) == []


def test_of_many_prefixes_the_first_hundred_are_told(layers: RuleLayers, home: Path, work: Path) -> None:
    write(home / "rules", "a.rules", *(f"p{number:03}" for number in range(101)))
    (fragment,) = RulesAnnouncement(layers).fragments(facts(work, home))
    assert fragment.text.count("\n- ") == 100
    assert fragment.text.endswith('- ["p099"]\n...\n[Some commands were truncated]\n</allowed_commands>')


def test_the_person_hears_of_wrong_files_once_a_thread(layers: RuleLayers, home: Path, work: Path) -> None:
    source = RulesAnnouncement(layers)
    (home / "rules" / "a.rules").write_text("x")
    for thread_id in ("one", "two"):
        with pytest.raises(CodexError, match=r"a\.rules:1:1: Variable `x` not found"):
            list(source.fragments(facts(work, home, thread_id)))
        assert list(source.fragments(facts(work, home, thread_id))) == []
