"""Which verdict a command gets, under each approval policy, with rules and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, CommandVerdict, Verdict
from codex_framework.contract.protocol.policies import DangerFullAccess, ExternalSandbox, GranularApproval, ReadOnly
from codex_plugin_execpolicy.judgement import Line, evaluate_line
from codex_plugin_execpolicy.rulefile import read_rules

UNTRUSTED, ON_FAILURE = ApprovalPolicy.UNTRUSTED, ApprovalPolicy.ON_FAILURE
ON_REQUEST, NEVER = ApprovalPolicy.ON_REQUEST, ApprovalPolicy.NEVER
GRANULAR = GranularApproval(sandbox_approval=True, rules=True, mcp_elicitations=True)
ALLOW, UNCONFINED = CommandVerdict(verdict=Verdict.ALLOW), CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)

Judge = Callable[..., CommandVerdict | None]


def asks(*amendment: str) -> CommandVerdict:
    return CommandVerdict(verdict=Verdict.ASK, amendment=amendment)


@pytest.mark.parametrize("command", [["ls", "-l"], ["bash", "-lc", "cd a && git log -3 | head"], ["zsh", "-c", "ls *"]])
def test_untrusted_lets_commands_that_only_look_run(judge: Judge, command: list[str]) -> None:
    assert judge(command, UNTRUSTED) == ALLOW


def test_untrusted_asks_about_all_others_and_proposes_the_first_of_them(judge: Judge) -> None:
    assert judge(["touch", "a"], UNTRUSTED) == asks("touch", "a")
    assert judge("ls && touch a && touch b", UNTRUSTED) == asks("touch", "a")
    assert judge("ls > x", UNTRUSTED) == asks("bash", "-lc", "ls > x")
    assert judge("git log *", UNTRUSTED) == asks("git", "log", "*")


def test_a_heredoc_is_never_safe_and_never_proposed(judge: Judge) -> None:
    assert judge("cat <<EOF\na\nEOF", UNTRUSTED) == CommandVerdict(verdict=Verdict.ASK)


def test_what_can_do_anything_is_not_proposed(judge: Judge) -> None:
    assert judge(["python3"], UNTRUSTED) == CommandVerdict(verdict=Verdict.ASK)


@pytest.mark.parametrize("policy", [ON_FAILURE, ON_REQUEST, NEVER, GRANULAR])
def test_the_other_policies_leave_ordinary_commands_to_the_sandbox(judge: Judge, policy: Any) -> None:
    assert [judge("touch a", policy), judge("ls > a", policy), judge(["rm", "a"], policy)] == [None, None, None]


@pytest.mark.parametrize("policy", [UNTRUSTED, ON_FAILURE, ON_REQUEST, GRANULAR])
@pytest.mark.parametrize(
    "command",
    [
        *(["rm", "-rf", "x"], ["sudo", "rm", "-f", "x"], "ls; rm -rf x", "for a in b; do rm -f $a; done"),
        *("x=$(rm -rf y)", "A=1 rm -rf x > log", "if true; then (rm -fr x); fi", "\"rm\" -f 'x'"),
        *("r'm' -f x", "bash -c 'rm -f x'", 'ls; env sh -c "ls && rm -rf x"', ["sudo", "bash", "-c", "rm -f x"]),
    ],
)
def test_a_person_is_asked_about_dangerous_commands(judge: Judge, policy: Any, command: Any) -> None:
    verdict = judge(command, policy)
    assert verdict is not None
    assert verdict.verdict is Verdict.ASK


@pytest.mark.parametrize("sandbox", [ReadOnly(), ExternalSandbox(), DangerFullAccess()])
def test_where_nobody_may_be_asked_the_sandbox_alone_decides(judge: Judge, sandbox: Any) -> None:
    assert judge("rm -rf build", NEVER, sandbox=sandbox) is None


def test_what_a_rule_asks_and_what_judgement_asks_can_be_told_apart(judge: Judge, home: Path) -> None:
    (home / "rules" / "a.rules").write_text('prefix_rule(["touch"], "prompt")')
    granular = GranularApproval(sandbox_approval=False, rules=True, mcp_elicitations=True)
    verdicts = [judge(command, granular) for command in (["rm", "-f", "x"], ["touch", "x"], "rm -f x; touch x")]
    assert [verdict is not None and verdict.by_rule for verdict in verdicts] == [False, True, True]
    assert {verdict.verdict for verdict in verdicts if verdict is not None} == {Verdict.ASK}


def test_asking_to_leave_the_sandbox_proposes_a_prefix(judge: Judge) -> None:
    assert judge("npm install x", escalate="require_escalated") == asks("npm", "install", "x")
    wanted = {"escalate": "require_escalated", "prefix_rule": ("npm", "install")}
    assert judge("npm install x", **wanted) == asks("npm", "install")
    assert judge("npm install x && touch a", **wanted) == asks("npm", "install", "x")
    assert judge("npm install x", escalate="require_escalated", sandbox=DangerFullAccess()) is None


def test_a_proposal_of_the_model_that_allows_everything_is_not_taken_up(judge: Judge) -> None:
    found = judge("git push", escalate="require_escalated", prefix_rule=("git",))
    assert found == asks("git", "push")


def test_rules_decide_before_judgement(judge: Judge, home: Path) -> None:
    (home / "rules" / "a.rules").write_text(
        'prefix_rule(["rm", "-rf", "build"])\n'
        'prefix_rule(["git", "push"], "prompt", justification="it leaves this machine")\n'
        'prefix_rule(["git", "fetch"], "prompt")\n'
        'prefix_rule(["npm"], "forbidden", justification="use yarn")\n'
        'prefix_rule([["pip", "pip3"], "install"], "forbidden")\n'
    )
    assert judge(["rm", "-rf", "build"]) == UNCONFINED
    assert judge(["rm", "-rf", "src"]) == asks("rm", "-rf", "src").evolve(precaution=True)
    assert judge(["rm", "-rf", "src"], UNTRUSTED) == asks("rm", "-rf", "src")
    assert judge(["rm", "-rf", "src"], escalate="require_escalated") == asks("rm", "-rf", "src")
    assert judge("rm -rf build && ls") is None
    assert judge("rm -rf build && ls", UNTRUSTED) == ALLOW
    assert judge("rm -rf build; rm -rf build", NEVER) == UNCONFINED
    assert judge(["git", "push"]) == CommandVerdict(
        verdict=Verdict.ASK, by_rule=True, reason="`git push` requires approval: it leaves this machine"
    )
    assert judge("git fetch && ls", NEVER) == CommandVerdict(
        verdict=Verdict.ASK, by_rule=True, reason="`bash -lc 'git fetch && ls'` requires approval by policy"
    )
    assert judge("ls | npm i", UNTRUSTED) == CommandVerdict(
        verdict=Verdict.FORBID, reason="`bash -lc 'ls | npm i'` rejected: use yarn"
    )
    assert judge(["/opt/pip3", "install", "x"]) == CommandVerdict(
        verdict=Verdict.FORBID,
        reason="`/opt/pip3 install x` rejected: policy forbids commands starting with `pip3 install`",
    )


@pytest.mark.parametrize(
    "script",
    [
        *("git push > log", "git push 2>&1 | tail", "for a in b; do git push; done", "x=$(git push)", "A=1 git push"),
        *(
            "(cd a && git push)",
            "git push &",
            "./git push",
            "a/git push > x",
            "git push <<E\n$X\nE",
            "! git push # now",
        ),
        *("time git push", "time -p git push | tail", "coproc git push", "! ! git push", "time A=1 git push"),
    ],
)
def test_what_a_rule_forbids_cannot_be_hidden_in_a_script(judge: Judge, home: Path, script: str) -> None:
    (home / "rules" / "a.rules").write_text('prefix_rule(["git", "push"], "forbidden", justification="no")')
    verdict = judge(script, NEVER)
    assert verdict is not None
    assert (verdict.verdict, verdict.reason.endswith(" rejected: no")) == (Verdict.FORBID, True)
    (home / "rules" / "a.rules").write_text('prefix_rule(["git", "push"], "prompt")')
    verdict = judge(script)
    assert verdict is not None
    assert (verdict.verdict, verdict.by_rule, verdict.amendment) == (Verdict.ASK, True, None)


@pytest.mark.parametrize(
    "script", ["git push > log", "A=1 git push", "./git push", "/opt/git push", "$(git push)", "git push &"]
)
def test_what_a_rule_allows_counts_for_certain_words_only(judge: Judge, home: Path, script: str) -> None:
    (home / "rules" / "a.rules").write_text('prefix_rule(["git", "push"])')
    assert judge(script) is None
    assert judge("git push") == UNCONFINED
    rules = read_rules(home / "rules" / "a.rules").rules
    assert evaluate_line(Line.read(("bash", "-lc", script)), rules).decision is None
    assert evaluate_line(Line.read(("bash", "-lc", "git push")), rules).decision is Verdict.ALLOW


def test_judging_a_plain_command_loads_no_parser() -> None:
    program = """
import sys, pathlib
from codex_framework import *
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.testing import turn_facts
from codex_plugin_execpolicy.policy import ExecPolicy
for policy in ApprovalPolicy:
    facts = turn_facts(approval_policy=policy, sandbox_policy=WorkspaceWrite(), cwd=pathlib.Path("/"), config={})
    for argv in (("touch", "a"), ("bash", "-lc", "ls -l")):
        ExecPolicy().judge(CommandRequest(argv=argv), facts)
    if policy is not ApprovalPolicy.UNTRUSTED:
        ExecPolicy().judge(CommandRequest(argv=("bash", "-lc", "for a in b; do cat $a > x; done")), facts)
print("tree_sitter" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
