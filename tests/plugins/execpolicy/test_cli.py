"""``codex-framework execpolicy``, as it is installed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forked import RunProgram

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(home: Path, work: Path, run_program: RunProgram) -> Run:
    def ran(*words: str) -> tuple[int, str, str]:
        env = {**os.environ, "CODEX_HOME": str(home), "HOME": str(home)}
        done = run_program("execpolicy", *words, cwd=work, env=env)
        return done.returncode, done.stdout, done.stderr

    return ran


def prefix_match(*prefix: str, decision: str = "allow") -> dict[str, Any]:
    return {"prefixRuleMatch": {"matchedPrefix": list(prefix), "decision": decision}}


def test_check_prints_what_the_rules_of_a_file_say(run: Run, work: Path) -> None:
    (work / "a.rules").write_text('prefix_rule(["git", "push"], "prompt")\nprefix_rule(["ls"])')
    assert run("check", "--rules", "a.rules", "git", "push", "--force") == (
        0,
        '{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","push"],"decision":"prompt"}}],"decision":"prompt"}\n',
        "",
    )
    status, out, _ = run("check", "--rules", "a.rules", "--pretty", "bash", "-lc", "ls && git push")
    matches = [prefix_match("ls"), prefix_match("git", "push", decision="prompt")]
    assert (status, json.loads(out)) == (0, {"matchedRules": matches, "decision": "prompt"})
    assert out.startswith('{\n  "matchedRules": [\n')


def test_check_looks_paths_up_by_name_on_demand(run: Run, work: Path) -> None:
    (work / "a.rules").write_text('prefix_rule(["ls"])')
    assert run("check", "--rules", "a.rules", "/bin/ls")[1] == '{"matchedRules":[]}\n'
    found = json.loads(run("check", "--rules", "a.rules", "--resolve-host-executables", "/bin/ls")[1])
    assert found["matchedRules"][0]["prefixRuleMatch"]["resolvedProgram"] == "/bin/ls"


def test_an_allowed_prefix_is_in_force_at_once(run: Run, home: Path) -> None:
    file = home / "rules" / "default.rules"
    assert run("allow", "npm", "run", "--silent") == (0, f'Added to {file}: ["npm", "run", "--silent"]\n', "")
    assert run("allow", "npm", "run", "--silent")[1] == f'Already in {file}: ["npm", "run", "--silent"]\n'
    answer = json.loads(run("check", "npm", "run", "--silent", "x")[1])
    assert answer == {"matchedRules": [prefix_match("npm", "run", "--silent")], "decision": "allow"}


def test_test_tells_which_file_is_wrong(run: Run, work: Path) -> None:
    (work / "good.rules").write_text('prefix_rule(["a"], match=["a b"])')
    (work / "bad.rules").write_text('prefix_rule(["a"], match=["b"])')
    status, out, err = run("test", "good.rules", "bad.rules", "none.rules")
    assert (status, out) == (1, "good.rules: 1 rule, 1 example\n")
    assert err == (
        "bad.rules:1: the example `b` is not matched by its rule\n"
        "  Correct that line; docs/plugins/execpolicy.md describes the format of rules files.\n"
        "the rules file none.rules cannot be read: No such file or directory\n"
        "  Name a file that exists and is readable.\n"
    )
    assert run("test", "good.rules")[0] == 0
    (work / "requirements.toml").write_text(
        '[rules]\nprefix_rules = [{ pattern = [{ token = "a" }], decision = "prompt" }]'
    )
    assert run("test", "requirements.toml") == (0, "requirements.toml: 1 rule, 0 examples\n", "")


def test_network_prints_what_the_rules_say_of_a_host(run: Run, home: Path) -> None:
    (home / "rules" / "a.rules").write_text(
        'network_rule("example.com", "https", "allow")\nnetwork_rule("example.com", "https", "deny", justification="no")'
    )
    first = {"networkRuleMatch": {"host": "example.com", "protocol": "https", "decision": "allow"}}
    second = {
        "networkRuleMatch": {"host": "example.com", "protocol": "https", "decision": "forbidden", "justification": "no"}
    }
    status, out, err = run("network", "Example.com:443")
    assert (status, json.loads(out), err) == (0, {"matchedRules": [first, second], "decision": "forbidden"}, "")
    assert run("network", "--protocol", "http", "example.com") == (0, '{"matchedRules":[]}\n', "")
    status, _, err = run("network", "a b")
    assert status == 1
    assert err.splitlines()[:2] == [
        "Error: network_rule host must be a hostname or IP literal (without scheme or path)",
        "Name one host, like example.com.",
    ]


def test_check_finds_what_a_script_hides(run: Run, home: Path) -> None:
    (home / "rules" / "a.rules").write_text('prefix_rule(["git", "push"], "forbidden")')
    answer = json.loads(run("check", "bash", "-c", "for a in b; do git push $a > log; done")[1])
    assert answer == {"matchedRules": [prefix_match("git", "push", decision="forbidden")], "decision": "forbidden"}


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("allow", "python3", "-c"), "Error: `python3 -c` can run anything"),
        (("check", "--rules", "none.rules", "ls"), "Error: the rules file none.rules cannot be read"),
        (("backtest",), "Error: there are no recorded sessions in "),
        (("backtest", "none"), "Error: there is no recorded session 'none'"),
        (("backtest", "-a", "no"), "Error: there is no approval policy 'no'"),
        (("backtest", "-s", "no"), "Error: there is no sandbox mode 'no'"),
    ],
)
def test_mistakes_are_told_without_a_traceback(run: Run, words: tuple[str, ...], fact: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (1, "")
    assert err.startswith(fact)
    assert "Traceback" not in err


def record(home: Path, *lines: dict[str, Any] | str) -> Path:
    folder = home / "sessions" / "2026" / "01" / "02"
    folder.mkdir(parents=True)
    file = folder / "rollout-2026-01-02T03-04-05-0000-1111.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def turn(approval: Any, sandbox: str) -> dict[str, Any]:
    payload = {"cwd": "/", "approval_policy": approval, "sandbox_policy": {"type": sandbox}}
    return {"timestamp": "t", "type": "turn_context", "payload": payload}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    payload = {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": "c"}
    return {"timestamp": "t", "type": "response_item", "payload": payload}


def test_backtest_judges_recorded_commands_anew(run: Run, home: Path) -> None:
    file = record(
        home,
        turn("untrusted", "workspace-write"),
        call("exec_command", cmd="ls"),
        call("shell_command", command="touch a"),
        call("shell", command=["bash", "-lc", "npm i"]),
        turn("never", "read-only"),
        call("exec_command", cmd="git push"),
        call("exec_command", cmd="rm -rf x"),
        turn({"granular": {"sandbox_approval": True, "rules": False, "mcp_elicitations": False}}, "read-only"),
        call("exec_command", cmd="git push"),
        call("exec_command", cmd="x", sandbox_permissions="require_escalated"),
        {"type": "response_item", "payload": {"type": "local_shell_call", "action": {"command": ["rm", "-f", "x"]}}},
        call("update_plan", plan=[]),
        call("exec_command", cmd=1),
        {"type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{"}},
        "torn",
        "[]",
    )
    (home / "rules" / "a.rules").write_text('prefix_rule(["npm"], "forbidden")\nprefix_rule(["git", "push"], "prompt")')
    status, out, err = run("backtest", "--json")
    outcomes = [(found["outcome"], found["command"][-1]) for found in map(json.loads, out.splitlines())]
    assert outcomes == [
        ("ask", "touch a"),
        ("refuse", "npm i"),
        ("refuse", "git push"),
        ("refuse", "git push"),
        ("ask", "x"),
        ("ask", "x"),
    ]
    assert (status, err) == (0, "would have asked 3 times, refused 3, of 8 commands\n")
    listed = run("backtest", "0000-1111", "-a", "on-request", "-s", "workspace-write")[1].splitlines()
    assert listed == [
        f"refuse  {file.stem}  bash -lc 'npm i'  (`bash -lc 'npm i'` rejected: policy forbids commands starting with `npm`)",
        f"ask     {file.stem}  bash -lc 'git push'  (`bash -lc 'git push'` requires approval by policy)",
        f"ask     {file.stem}  bash -lc 'rm -rf x'",
        f"ask     {file.stem}  bash -lc 'git push'  (`bash -lc 'git push'` requires approval by policy)",
        f"ask     {file.stem}  bash -lc x  (asks to run outside of the sandbox)",
        f"ask     {file.stem}  rm -f x",
        "would have asked 5 times, refused 1, of 8 commands",
    ]


def test_backtest_reads_sessions_of_the_real_codex(run: Run, anchors: Path) -> None:
    files = sorted(str(file) for file in (anchors / "rollouts").glob("*.jsonl"))
    status, out, err = run("backtest", "--approval-policy", "never", *files)
    assert (status, err) == (0, "")
    assert re.fullmatch(r"would have asked 0 times, refused \d+, of [1-9]\d* commands", out.splitlines()[-1])


def test_backtest_takes_a_name_that_can_be_no_file_for_an_id(run: Run, home: Path) -> None:
    record(home)
    name = "x" * 5000
    assert run("backtest", name)[2].startswith(f"Error: there is no recorded session '{name}'")
