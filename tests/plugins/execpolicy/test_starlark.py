"""Rules files as programs: what Starlark makes of them, and what holds of those that go wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_framework import ConfigError, Verdict
from codex_plugin_execpolicy.amendments import allow_prefix
from codex_plugin_execpolicy.interpretation import Deadline, Part
from codex_plugin_execpolicy.interpreter import interpret, parts_of
from codex_plugin_execpolicy.judgement import evaluate
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.rulefile import LARGEST, RuleFile, parse_rules, read_rules, usable_rules

GOLDEN = [json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines()]
"""Texts, and what ``codex execpolicy check -- ls a`` says with them as rules; null where it refuses them."""


def read(text: str) -> RuleFile:
    return parse_rules(text.encode(), "x.rules")


def answer(text: str) -> dict[str, Any] | None:
    try:
        return evaluate((("ls", "a"),), read(text).rules, resolve=False).wire()
    except ConfigError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN, ids=[str(number) for number in range(len(GOLDEN))])
def test_rules_are_those_that_codex_reads(case: dict[str, Any]) -> None:
    found = answer(case["rules"])
    if case["rules"].startswith("\ufeff"):  # Codex refuses a byte order mark, and here it is left out
        assert (case["answer"], found) == (None, answer(case["rules"][1:]))
        assert found is not None, "the rules after the mark count"
    else:
        assert found == case["answer"]


def test_the_examples_of_the_documentation_are_rules() -> None:
    page = (Path(__file__).parents[3] / "docs" / "plugins" / "execpolicy.md").read_text()
    calls, program = re.findall(r"^```starlark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(list(read(calls).rules.prefix_rules)) == 2
    rules = read(program).rules
    assert [(match.decision, match.justification) for match in rules.matches(("git", "push"))] == [
        (Verdict.ASK, "`git push` leaves the machine")
    ]
    assert rules.matches(("npm", "publish"))[0].justification == "CI publishes"
    assert rules.matches(("dd", "if=/dev/zero"))[0].decision is Verdict.FORBID


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nprefix_rule(x + y)", "x.rules:2:17: Variable `y` not found, did you mean `x`?"),
        ("foo()", "x.rules:1:1: Variable `foo` not found"),
        ("import os", "x.rules:1:1: cannot use reserved keyword `import`"),
        ("\nx = 1 y", "x.rules:2:7: unexpected identifier 'y' here"),
        ("def f(x):\n    fail('not', x)\n\nf(3)", "x.rules:2:5: fail: not 3"),
        ("def f(d):\n    prefix_rule(['a'], d)\n\nf('allow')\nf('no')", "x.rules:2: invalid decision: no; use one of"),
        ("x = 1\n\nprefix_rule([\n    'a',\n", "x.rules:3: unexpected new line here"),
        ("x = 1\nif x:\n    y = (\n", "x.rules:2: unexpected new line here"),
        ('x = 1\ny = f"{x"', "x.rules:2:9: unfinished string literal"),
        ('x = 1\ny = [f"x}"]', "x.rules:2:6: an f-string has a single `}`; write `}}` for a brace"),
        ('x = f"{(]}"', "x.rules:1:5: an f-string has brackets that do not fit"),
        ('x = f"{1!x}"', "x.rules:1:5: an f-string has something other than `!r` or `!s` behind an expression"),
        ("\n" + 'f"{' * 30, "x.rules:2:61: f-strings are nested too deeply"),
        ("x = 'ab\n", "x.rules:1:5: unfinished string literal"),
        ("\tprefix_rule(['a'])", "x.rules:1:1: tabs are not allowed"),
        ("prefix_rule([x for x in ['a', 'b']], match = ['a b', 'c'])", "x.rules:1: the example `c` is not matched"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(told)
    assert str(caught.value).startswith(f"x.rules:{caught.value.line}:")
    assert caught.value.slug == "exec-rules"
    assert caught.value.hint


LIMITS = {
    "an endless loop": ("for i in range(2000000000):\n    pass", "takes more than 2 s of processor time"),
    "an operation without end": (
        "y = []\nfor i in range(70):\n    y = [y, y]\nz = str(y)",
        "takes more than (2 s of processor time|512 MiB of memory)",  # which one comes first depends on the machine
    ),
    "a long string": ('y = "a" * 1000000000', "takes more than 512 MiB of memory"),
    "a growing list": ("y = ['a']\nfor i in range(60):\n    y = y + y", "takes more than 512 MiB of memory"),
    "many rules": ("for i in range(1000000):\n    prefix_rule(['a' * 1000])", "its rules take more than 8 MiB"),
    "brackets": (f"y = {'[' * 200_000}{']' * 200_000}", "are nested too deeply"),
    "operators": (f"y = {'not ' * 200_000}1", "are nested too deeply"),
    "a sum": (f"y = {' + '.join(['1'] * 200_000)}", "are nested too deeply"),
    "lists in lists": (
        "y, z = [], []\nfor i in range(1000000):\n    y, z = [y], [z]\nu = y == z",
        "are nested too deeply",
    ),
}


THOROUGH = {"an operation without end"}
"""It takes seconds, and ends as the endless loop does, or as the growing list."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name in THOROUGH else []) for name in LIMITS]
)
def test_rules_beyond_the_limits_are_refused_with_their_place(name: str, tmp_path: Path) -> None:
    """Some of these take the two seconds of processor time that a file may take."""
    text, told = LIMITS[name]
    file = tmp_path / "x.rules"
    file.write_text(
        f'x = ["b"]\nprefix_rule(["a"], "forbidden")\n\n{text}\nprefix_rule(["c"], "prompt")\nprefix_rule(["d"])\n'
    )
    rules, mistake = usable_rules(file, Deadline(300))  # a busy machine may take long for two seconds of processor time
    assert mistake is not None
    assert re.search(told, str(mistake))
    assert mistake.hint
    assert mistake.line is not None
    assert 4 <= mistake.line <= 4 + text.count("\n")  # the mistake itself, or the statement with it
    severe = {rule.program: rule.decision for rule in rules.severe().prefix_rules}
    assert severe.items() >= {"a": Verdict.FORBID, "c": Verdict.ASK}.items()


def test_recursion_ends() -> None:
    with pytest.raises(ConfigError, match=r"x\.rules:2:12: Starlark call stack overflow"):
        read("def f(n):\n    return f(n + 1)\n\nf(0)")


@pytest.mark.slow
def test_no_rules_take_more_memory_than_the_limit() -> None:
    code = (
        "import json, re, resource, sys\n"
        "from pathlib import Path\n"
        "from codex_framework import ConfigError\n"
        "from codex_plugin_execpolicy.rulefile import parse_rules\n"
        "for text in json.load(sys.stdin):\n"
        "    try: parse_rules(text.encode(), 'x')\n"
        "    except ConfigError: pass\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "status = Path('/proc/self/status')\n"  # ru_maxrss of a process counts what its parent held as it was started
        "print(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1] if status.exists() else 0)\n"
    )
    texts = [LIMITS[name][0] for name in ("a long string", "a growing list", "many rules")]
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    worker, kernel = (int(size) * unit for size in done.stdout.split())
    assert worker < 600 * 1024 * 1024
    assert kernel < 200 * 1024 * 1024


def test_files_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "x.rules"
    rule = 'prefix_rule(["a"], "forbidden")\n'
    file.write_text(rule + f"{'#' * 99}\n" * (LARGEST // 10) + rule)
    with pytest.raises(ConfigError, match=r"x\.rules has more than 1,048,576 bytes") as caught:
        read_rules(file)
    assert "Split it" in caught.value.hint
    rules, mistake = usable_rules(file)
    assert str(mistake) == str(caught.value)
    assert {rule.decision for rule in rules.severe().prefix_rules} == {Verdict.FORBID}
    file.write_text(rule * (LARGEST // len(rule)))
    assert len(list(read_rules(file).rules.prefix_rules)) == LARGEST // len(rule)


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.rules")
    (tmp_path / "endless.rules").symlink_to("/dev/zero")
    for file in tmp_path.iterdir():
        with pytest.raises(ConfigError, match="cannot be read: it is not a regular file"):
            read_rules(file)


def test_nothing_is_added_to_a_file_that_is_full(home: Path) -> None:
    file = home / "rules" / "default.rules"
    text = "#" * (LARGEST - 10)
    file.write_text(text)
    with pytest.raises(Exception, match="is full: at most 1,048,576 bytes are allowed") as caught:
        allow_prefix(home, ("a",))
    assert file.read_text() == text
    assert "Remove rules" in getattr(caught.value, "hint", "")


def test_a_prefix_is_added_to_a_file_with_functions(home: Path) -> None:
    file = home / "rules" / "default.rules"
    file.write_text("def ask(*words):\n    prefix_rule(list(words), decision = 'prompt')\n\nask('a', 'b')")
    assert allow_prefix(home, ("c",))
    rules = read_rules(file).rules
    assert [(rule.program, rule.decision) for rule in rules.prefix_rules] == [("a", Verdict.ASK), ("c", Verdict.ALLOW)]


@pytest.mark.parametrize(
    "mistake",
    [
        "x = unknown",
        "x = (",
        'x = f"{"',
        "fail('no')",
        "def f(:\n    pass",
        "prefix_rule([1])",
        "while True:\n    pass",
    ],
)
def test_what_a_program_with_a_mistake_forbids_still_holds(tmp_path: Path, mistake: str) -> None:
    file = tmp_path / "x.rules"
    file.write_text(
        "tools = ['a', 'b']\n\ndef forbid(words):\n    for word in words:\n        prefix_rule([word], 'forbidden')\n\n"
        f"{mistake}\nforbid(tools)\nif 'a' in tools:\n    prefix_rule(['c'], 'prompt')\nelse:\n    prefix_rule(['d'], 'prompt')\n"
        "[prefix_rule([name], 'prompt') for name in [\n    'e',\n]]\nprefix_rule(['f'])\n"
    )
    rules, error = usable_rules(file)
    assert error is not None
    assert error.line in (7, 8, 9)  # Starlark sees some mistakes only where the next statement does not fit
    assert [rule.program for rule in rules.severe().prefix_rules] == ["a", "b", "c", "e"]


def test_files_share_the_time_that_reading_may_take(tmp_path: Path) -> None:
    file = tmp_path / "x.rules"
    file.write_text("x = 1\nprefix_rule(['a'], 'prompt')")
    with pytest.raises(
        ConfigError, match=r"x\.rules:1: it is not read, because reading the rules takes more than 10 s"
    ):
        read_rules(file, Deadline(0))
    rules, _ = usable_rules(file, Deadline(0))
    assert [rule.program for rule in rules.prefix_rules] == ["a"]
    file.write_text("for i in range(2000000000):\n    pass")
    with pytest.raises(ConfigError, match="it is not read, because"):
        read_rules(file, Deadline(0.2))
    file.write_text("prefix_rule(['a'])")
    assert read_rules(file, Deadline(0)).rules


def test_examples_are_checked_in_time() -> None:
    text = f"prefix_rule([{['a'] * 100}], match = {['a b'] * 100})"
    assert len(read(text).examples) == 100
    with pytest.raises(ConfigError, match=r"x\.rules:1: checking the examples takes too long"):
        parse_rules(text.encode(), "x.rules", Deadline(0))


def test_literal_rules_need_no_starlark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/none/python")
    assert read('prefix_rule(["a"])').rules
    with pytest.raises(ConfigError, match=r"x\.rules:1: Starlark cannot be started: No such file or directory"):
        read('prefix_rule(["a"] + [])')
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ConfigError, match=r"x\.rules:1: Starlark cannot be used: exit code 1"):
        read('prefix_rule(["a"] + [])')


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="Starlark is not installed") as caught:
        read("x = 1")
    assert caught.value.hint == "Install starlark-pyo3, which codex-framework depends on."


def test_starlark_is_not_imported_into_the_kernel(tmp_path: Path) -> None:
    """Without rules, and with literal ones, not even what starts it is."""
    code = (
        "import sys, pathlib\n"
        "from codex_plugin_execpolicy.layers import RuleLayers\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "loaded = RuleLayers(str(folder / 'etc')).at(folder, folder, {})\n"
        "print(len(list(loaded.rules.prefix_rules)), len(loaded.problems), *(name for name in\n"
        "    ('starlark', 'codex_plugin_execpolicy.interpreter', 'codex_plugin_execpolicy.rulefile') if name in sys.modules))\n"
    )
    found = []
    for text in (None, 'prefix_rule(["a"])\n', 'prefix_rule(["a"] + ["b"])\n'):
        if text is not None:
            (tmp_path / "rules").mkdir(exist_ok=True)
            (tmp_path / "rules" / "a.rules").write_text(text)
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    literal, started = "codex_plugin_execpolicy.rulefile", "codex_plugin_execpolicy.interpreter"
    assert found == [["0", "0"], ["1", "0", literal], ["1", "0", started, literal]]


def test_rules_with_functions_are_read_anew_when_they_change(layers: RuleLayers, home: Path, work: Path) -> None:
    file = home / "rules" / "a.rules"
    for name in ("a", "b"):
        file.write_text(f"def allow(word):\n    prefix_rule([word])\n\nallow('{name}')")
        assert [rule.program for rule in layers.at(work, home, {}).rules.prefix_rules] == [name]


@settings(max_examples=15)
@given(st.lists(st.text() | st.text("prefix_rule()[]{}\"'f\\a,=\n ")))
def test_any_text_is_evaluated_or_refused(texts: list[str]) -> None:
    found = interpret([Part(text) for text in texts], Deadline())
    assert not found.rest
    assert all(failure.fact for failure in found.failures)


@given(st.text() | st.text("[]()#\"'a=\n else:"))
def test_parts_are_the_whole_text(text: str) -> None:
    parts = parts_of(text)
    assert "".join(part.text for part in parts) == text
    for part in parts:
        assert text.split("\n")[part.line - 1].startswith(part.text.split("\n")[0])
