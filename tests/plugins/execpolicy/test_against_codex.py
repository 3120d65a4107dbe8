"""The same rules and commands, given to the real Codex: ``CODEX_BINARY`` names it."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.errors import ConfigError
from codex_plugin_execpolicy.amendments import allow_prefix, decide_host
from codex_plugin_execpolicy.judgement import evaluate
from codex_plugin_execpolicy.rulefile import parse_rules

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
def codex(tmp_path: Path) -> Check:
    """``codex execpolicy check``: its answer, or None where it refuses the rules."""
    binary = os.environ.get("CODEX_BINARY")
    if binary is None:
        pytest.skip("no Codex at hand (set CODEX_BINARY)")
    home = tmp_path / "codex-home"
    home.mkdir()

    def check(rules: str, command: tuple[str, ...], *, resolve: bool = False) -> dict[str, Any] | None:
        file = tmp_path / "checked.rules"
        file.write_text(rules)
        argv = [binary, "execpolicy", "check", "--rules", str(file)]
        argv += ["--resolve-host-executables"] * resolve + ["--", *command]
        done = subprocess.run(argv, capture_output=True, text=True, env={"CODEX_HOME": str(home)}, check=False)
        answer: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
        return answer

    return check


def ours(rules: str, command: tuple[str, ...], *, resolve: bool = False) -> dict[str, Any] | None:
    try:
        return evaluate((command,), parse_rules(rules, "x.rules").rules, resolve=resolve).wire()
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


def test_generated_rules_say_the_same_of_generated_commands(codex: Check) -> None:
    chance = random.Random(1)  # the same cases each time
    matched = 0
    for number in range(600):
        rules, command, resolve = made_case(chance)
        theirs = codex(rules, command, resolve=resolve)
        assert ours(rules, command, resolve=resolve) == theirs, (number, rules, command, resolve)
        matched += bool(theirs and theirs["matchedRules"])
    assert matched > 300


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
