"""The same rules and commands, given to the real Codex."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, CommandRequest, Verdict
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.protocol.policies import ReadOnly
from codex_framework.testing import ResponsesServer, call, say, turn_facts
from codex_plugin_execpolicy.amendments import allow_prefix, decide_host
from codex_plugin_execpolicy.judgement import evaluate
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.policy import ExecPolicy
from codex_plugin_execpolicy.rulefile import parse_rules
from tests.plugins.execpolicy.programs import random_program

Check = Callable[..., dict[str, Any] | None]

_PROGRAMS = ["git", "ls", "npm", "/usr/bin/git", "/bin/ls", "bash", "a b", "é", "rm", "sudo", "./x", ""]
_WORDS = [
    "push",
    "fetch",
    "-f",
    "-lc",
    "install",
    "a b",
    "'",
    '"',
    "\\",
    "é",
    "",
    "--",
    "-rf",
    "x=y",
    "$HOME",
    "*",
    "\n",
]
_PATHS = ["/usr/bin/git", "/bin/ls", "/usr/local/bin/npm", "/bin/git", "/usr/bin/ls"]


@pytest.fixture
def codex(tmp_path: Path, codex_binary: str) -> Check:
    """``codex execpolicy check``: its answer, or None where it refuses the rules."""
    home = tmp_path / "codex-home"
    home.mkdir()

    def check(rules: str, command: tuple[str, ...], *, resolve: bool = False) -> dict[str, Any] | None:
        file = tmp_path / "checked.rules"
        file.write_text(rules, newline="")
        argv = [codex_binary, "execpolicy", "check", "--rules", str(file)]
        argv += ["--resolve-host-executables"] * resolve + ["--", *command]
        done = subprocess.run(argv, capture_output=True, text=True, env={"CODEX_HOME": str(home)}, check=False)
        answer: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
        return answer

    return check


def ours(rules: str, command: tuple[str, ...], *, resolve: bool = False) -> dict[str, Any] | None:
    try:
        return evaluate((command,), parse_rules(rules.encode(), "x.rules").rules, resolve=resolve).wire()
    except ConfigError:
        return None


def literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def made_case(chance: random.Random) -> tuple[str, tuple[str, ...], bool]:
    lines, patterns = [], []
    for _ in range(chance.randint(1, 6)):
        rest = [
            chance.choice(_WORDS) if chance.random() < 0.7 else chance.sample(_WORDS, 2)
            for _ in range(chance.randint(0, 3))
        ]
        first = chance.choice(_PROGRAMS) if chance.random() < 0.7 else chance.sample(_PROGRAMS, 3)
        patterns.append([first, *rest])
        arguments = [f"pattern={literal([first, *rest])}"]
        if chance.random() < 0.7:
            arguments.append(f"decision={literal(chance.choice(['allow', 'prompt', 'forbidden']))}")
        if chance.random() < 0.3:
            arguments.append(f"justification={literal(chance.choice(['why', 'é ü', 'a b']))}")
        lines.append(f"prefix_rule({', '.join(arguments)})")
    for _ in range(chance.choice([0, 0, 1, 2])):
        path = chance.choice(_PATHS)
        name = path.rsplit("/", 1)[-1]
        paths = [other for other in _PATHS if other.endswith(f"/{name}") and chance.random() < 0.5]
        lines.append(f"host_executable(name={literal(name)}, paths={literal(paths)})")
    chance.shuffle(lines)
    words = [word if isinstance(word, str) else chance.choice(word) for word in chance.choice(patterns)]
    if chance.random() < 0.3:
        words[0] = chance.choice([*_PROGRAMS, *_PATHS])
    if chance.random() < 0.3:
        words[chance.randrange(len(words))] = chance.choice(_WORDS)
    words += [chance.choice(_WORDS) for _ in range(chance.randint(0, 2))]
    return "\n".join(lines), tuple(words) if words[0] else ("git", *words), chance.random() < 0.6


@pytest.mark.timeout(600)
def test_generated_rules_say_the_same_of_generated_commands(codex: Check) -> None:
    chance = random.Random(1)  # the same cases each time
    matched = 0
    for number in range(600):
        rules, command, resolve = made_case(chance)
        theirs = codex(rules, command, resolve=resolve)
        assert ours(rules, command, resolve=resolve) == theirs, (number, rules, command, resolve)
        matched += bool(theirs and theirs["matchedRules"])
    assert matched > 300


@pytest.mark.timeout(600)
def test_generated_programs_give_the_same_rules(codex: Check) -> None:
    """600 programs, each evaluated in two processes: a minute or two."""
    chance = random.Random(2)  # the same programs each time
    taken = matched = 0
    for number in range(600):
        rules = random_program(chance)
        theirs = codex(rules, ("ls", "a"))
        assert ours(rules, ("ls", "a")) == theirs, (number, rules)
        taken += theirs is not None
        matched += bool(theirs and theirs["matchedRules"])
    assert taken > 400
    assert matched > 350


_FSTRING_PIECES = [
    "{x}", '{d["k"]}', "{d['k']}", "{{", "}}", "{", "}", "a", " ", "é", "\\n", '\\"', "\\'", "\\\\", '"', "'",
    "{x!r}", "{x + 1}", '{f"{x}"}', '{"}"}', "{[y for y in l]}", "#", "{x#", "\n", "!r", "%s", "{ x }", "{(x, 1)}",
    '{"\\""}', "\\x41", "\\{", "{x==1}", "{x!=1}", "{}}", "{''}", "{x,}",
]  # fmt: skip


def test_generated_fstrings_have_the_same_values(codex: Check) -> None:
    chance = random.Random(4)  # the same f-strings each time
    taken = 0
    for _ in range(300):
        quote, prefix = chance.choice(['"', "'", '"""', "'''"]), chance.choice(["f", "f", "fr", "r", ""])
        text = "".join(chance.choices(_FSTRING_PIECES, k=chance.randint(0, 5)))
        value = f"{prefix}{quote}{text}{quote}"
        rules = f'x = 1\nl = [1]\nd = {{"k": "v"}}\nf"{{x}}"\nprefix_rule(["ls"], justification = {value} + "-")\n'
        theirs = codex(rules, ("ls",))
        assert ours(rules, ("ls",)) == theirs, value
        taken += theirs is not None
    assert taken > 100


def test_the_recorded_answers_are_those_of_codex(codex: Check) -> None:
    for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        assert codex(case["rules"], ("ls", "a")) == case["answer"], case["rules"]


@pytest.mark.parametrize(
    "rules",
    [
        *(f'network_rule(host="{host}", protocol="https", decision="deny")' for host in (
            "a.b", "A.b.", "a.b:443", "1.2.3.4", "1.2.3.4:80", "::1", "[::1]", "[::1]:443", "é.jp", "a_b", "-a", " a ",
            "", "*", "*.a", "a/b", "http://a", "a?b", "a#b", "a b", "[::1", "fe80::1%eth0",
        )),
        *(f'network_rule(host="a", protocol="{protocol}", decision="allow")' for protocol in (
            "http", "https", "socks5_tcp", "socks5_udp", "http-connect", "https_connect", "http_connect", "socks5", "HTTP", "",
        )),
        *(f'network_rule("a", "http", "{decision}")' for decision in ("allow", "prompt", "deny", "forbidden", "no")),
        'network_rule("a", "http", "allow", justification=" ")',
        'network_rule("a", "http", "allow", "why")',
        'x = ["ls"]\nprefix_rule(x + ["a"])',
        'prefix_rule(["l" + "s"])',
        'prefix_rule(["ls"], foo=1)',
        'prefix_rule(["ls"], "allow", ["ls a"], ["pwd"], "why")',
        'prefix_rule(("ls",))',
        'prefix_rule([("ls", "a")])',
        'prefix_rule(["ls"], None)',
        'prefix_rule(["ls"], match=None)',
        'prefix_rule(["ls"], match="ls")',
        'prefix_rule(["ls"], match=[("ls", "a")])',
        'prefix_rule(["ls"], match=["/opt/ls a"])',
        'prefix_rule(["ls"], not_match=["/opt/ls a"])',
        'prefix_rule([["ls", "pwd"]], match=["ls", ["pwd", "a"]])',
        'prefix_rule(["ls"], "prompt", not_match=["ls b"])',
        'host_executable("ls", ["/bin/ls"])\nprefix_rule(["ls"], match=["/opt/ls a"])',
        *(f'prefix_rule(["ls", {json.dumps(word)}], match=[{json.dumps(example)}])' for word, example in (
            ("#", "ls #"), ("a#", "ls a#"), ("$", 'ls "\\$"'), ("`", 'ls "\\`"'), ("\\a", 'ls "\\a"'), ("\r", "ls \r"),
            ("\v", "ls \v"), ("", "ls ''"), ("ab", "ls a\\\nb"), ("ab", 'ls "a\\\nb"'),
            ("a", "ls # x\na"), ("a'b", "ls a\\'b"), ("ab", "ls 'a'\"b\""),
            ("a", "ls\\"), ("a", "ls 'a"), ("", "ls \\\n"), ("a", "ls\na"), ("a", "\tls a "), ("é\u3000", "ls é\u3000"),
        )),
        'prefix_rule(["ls"], justification="\\u001c")',
        'prefix_rule(["ls"], justification="\\u00a0 ")',
        'prefix_rule(["ls"], justification=None)',
        'host_executable("ls", ["/bin/../bin//ls/"])\nprefix_rule(["ls"], match=["/bin/ls"])',
        'host_executable("ls", ["//bin/ls/."])\nprefix_rule(["ls"], match=["/bin/ls"])',
        'host_executable("a\\\\b", ["/a\\\\b"])',
        'host_executable("ls/", [])',
        'host_executable(".", [])',
        'host_executable("ls", ["~/ls"])',
        'prefix_rule(["ls"], match=[""])',
        'prefix_rule(["ls"], match=[[]])',
        'prefix_rule(["ls"], match=["\\"ls"])',
        'prefix_rule(["ls", []])',
        "prefix_rule([])",
        "prefix_rule()",
        "prefix_rule([1])",
        'prefix_rule(["ls", 1])',
        'prefix_rule(["ls"], justification="")',
        'prefix_rule(["ls"], "deny")',
        'prefix_rule(["ls"], "Allow")',
        'prefix_rule(["ls"]); prefix_rule(["ls"], "prompt")',
        '"""a text"""\n# a comment\nprefix_rule(["ls"],)',
        'host_executable("ls", ["ls"])',
        'host_executable("ls", ["/bin/pwd"])',
        'host_executable("ls", ("/bin/ls",))',
        'host_executable("ls", [])',
        'host_executable("/bin/ls", ["/bin/ls"])',
        'host_executable("", [])',
        'print("x")',
        'load("a", "b")',
        "import os",
        "prefix_rule([",
    ],
)  # fmt: skip
def test_the_same_rules_are_refused(codex: Check, rules: str) -> None:
    assert ours(rules, ("ls", "a")) == codex(rules, ("ls", "a"))


def test_what_is_written_for_people_can_be_read_by_codex(codex: Check, home: Path) -> None:
    prefixes = [("touch", "a b", 'é"\\'), ("x", "\n\t\x01", "日本", "${HOME}"), ("npm", "run", "--x=y")]
    for prefix in prefixes:
        allow_prefix(home, prefix)
    decide_host(home, "Example.com", "https", allow=True)
    decide_host(home, "::1", "socks5_udp", allow=False)
    rules = (home / "rules" / "default.rules").read_text()
    for prefix in prefixes:
        match = {"prefixRuleMatch": {"matchedPrefix": list(prefix), "decision": "allow"}}
        assert codex(rules, (*prefix, "more")) == {"matchedRules": [match], "decision": "allow"}


def asked_by_codex(binary: str, scripts: list[str], folder: Path, rules: str = "") -> set[str]:
    """Which scripts the app server of Codex asks about, under ``on-request`` and read-only. Each question is declined."""
    home, work = folder / "codex-home", folder / "codex-work"
    (home / "rules").mkdir(parents=True)
    (home / "rules" / "a.rules").write_text(rules)
    work.mkdir()
    asked: set[str] = set()
    with ResponsesServer([*(call("exec_command", cmd=script) for script in scripts), say("Done.")]) as server:
        provider = f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses"}}'
        options = ("-c", provider, "-c", "model_provider=mock", "-c", 'model="gpt-5.5"')
        with subprocess.Popen(
            [binary, *options, "app-server", "--listen", "stdio://"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=work,
            env={"HOME": str(home), "CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"},
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None

            def send(**message: Any) -> None:
                assert process.stdin is not None
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()

            client = {"name": "t", "title": "t", "version": "1"}
            send(id=1, method="initialize", params={"clientInfo": client, "capabilities": None})
            send(method="initialized")
            thread = {"cwd": str(work), "approvalPolicy": "on-request", "sandbox": "read-only"}
            send(id=2, method="thread/start", params=thread)
            for line in process.stdout:
                message = json.loads(line)
                assert "error" not in message, message
                if message.get("id") == 2 and "result" in message:  # their own requests count from 0
                    words = [{"type": "text", "text": "go", "text_elements": []}]
                    send(
                        id=3,
                        method="turn/start",
                        params={"threadId": message["result"]["thread"]["id"], "input": words},
                    )
                if str(message.get("method")).endswith("requestApproval"):
                    asked.add(message["params"]["itemId"])
                    send(id=message["id"], result={"decision": "decline"})
                if message.get("method") == "turn/completed":
                    break
            process.terminate()
        calls = [item["call_id"] for item in server.inputs[-1] if item["type"] == "function_call"]
    assert len(calls) == len(scripts)
    return {script for script, name in zip(scripts, calls, strict=True) if name in asked}


def asked_here(scripts: list[str], folder: Path, rules: str = "") -> set[str]:
    home = folder / "home"
    (home / "rules" / "a.rules").write_text(rules)
    policy = ExecPolicy(RuleLayers(str(folder / "etc")))
    facts = turn_facts(
        approval_policy=ApprovalPolicy.ON_REQUEST, sandbox_policy=ReadOnly(), cwd=folder, config={}, codex_home=home
    )
    asked = set()
    for script in scripts:
        verdict = policy.judge(CommandRequest(argv=("bash", "-lc", script)), facts)
        if verdict is not None and verdict.verdict is Verdict.ASK:
            asked.add(script)
    return asked


_FORCED = [
    *(
        "rm -f x",
        "rm -rf x",
        "rm -r -f x",
        "rm -fr x",
        "rm -Rf x",
        "rm --force x",
        "rm --recursive --force x",
        "rm x -f",
    ),
    *("rm -v x -f", "rm -vf x", "/bin/rm -f x", "./rm -f x", "sudo rm -f x", "sudo sudo rm -f x", "env rm -f x"),
    *("env A=1 rm -f x", "bash -c 'rm -f x'", 'bash -lc "rm -f x"', "zsh -c 'rm -f x'", "ls; rm -f x", "ls | rm -f x"),
    *("rm -f x > y", "rm -f x 2>&1", "for a in b; do rm -f x; done", "if true; then rm -rf x; fi", "(rm -f x)"),
    *("{ rm -f x; }", "x=$(rm -f x)", "echo `rm -f x`", 'echo "$(rm -f x)"', "A=1 rm -f x", 'rm -f "$X"', "rm -f *.x"),
    *(
        '"rm" "-f" x',
        "r'm' -f x",
        "rm -f x &",
        "! rm -f x",
        "f() { rm -f x; }; f",
        "[ -f x ] && rm -f x",
        "rm -f x # y",
    ),
    *("case x in x) rm -f x;; esac", "[[ -f x ]] && rm -rf x", "rm -rf {a,b}", "rm -rf ~/x", "rm -f", "rm\t-f\tx"),
]
_NOT_FORCED = [
    *(
        "rm x",
        "rm -r x",
        "rm -- -f",
        "rm -i x",
        "rm",
        "sudo rm x",
        "sudo",
        "echo rm -f x",
        "echo 'rm -f x'",
        "# rm -f x",
    ),
    *(
        "cat <<EOF\nrm -f x\nEOF",
        "git rm -f x",
        "rmdir x",
        "unlink x",
        "ls -f",
        "find . -name x",
        "git reset --hard",
        "ls",
    ),
]


def test_codex_suspects_the_same_commands(tmp_path: Path, home: Path, codex_binary: str) -> None:
    scripts = [*_FORCED, *_NOT_FORCED]
    assert asked_by_codex(codex_binary, scripts, tmp_path) == asked_here(scripts, tmp_path) == set(_FORCED)


_RULED = [
    *("touch a", "/usr/bin/touch a", "/opt/touch a", "./touch a", "ls; touch a", "ls && touch a", "ls || touch a"),
    *(
        "ls | touch a",
        'touch "a b"',
        "touch 'a b'",
        'touch a"b"',
        "touch 1",
        " touch a ",
        "touch a;",
        "touch a=b",
        "touch é",
    ),
    *("touch a\nls", "touch -- a", 'touch ""', "cd x && touch a", "touch -t 1", "touch a,b:c+d", "touch \\\n a"),
]
_NOT_RULED = [
    "ls",
    "echo touch a",
    "tou\\\nch a",
    "# touch a",
]
_HIDDEN = [
    "env touch a",
    "xargs touch a",
    "eval touch a",
    "bash -c 'touch a'",
    "touch a > b",
    "touch a 2>&1",
    "touch $X",
    "(touch a)",
    "A=1 touch a",
    "touch a &",
    "touch *.x",
    '"touch" a',
    "! touch a",
]
"""What a rule for ``touch`` sees here, and not in Codex."""


def test_codex_applies_rules_to_the_same_scripts(tmp_path: Path, home: Path, codex_binary: str) -> None:
    scripts, rules = [*_RULED, *_NOT_RULED, *_HIDDEN], 'prefix_rule(["touch"], "prompt")'
    assert asked_by_codex(codex_binary, scripts, tmp_path, rules) == set(_RULED)
    assert asked_here(scripts, tmp_path, rules) == {*_RULED, *_HIDDEN}
