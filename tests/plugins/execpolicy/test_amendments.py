"""Prefixes that are allowed for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_framework import CodexError
from codex_plugin_execpolicy.amendments import allow_prefix, is_banned
from codex_plugin_execpolicy.rulefile import read_rules
from codex_plugin_execpolicy.rules import PrefixRule


def test_a_prefix_is_appended_once(tmp_path: Path) -> None:
    file = tmp_path / "home" / "rules" / "default.rules"
    assert allow_prefix(tmp_path / "home", ("touch", "a b", '"é\\'))
    assert not allow_prefix(tmp_path / "home", ("touch", "a b", '"é\\'))
    assert file.read_text() == 'prefix_rule(pattern=["touch", "a b", "\\"é\\\\"], decision="allow")\n'


def test_what_stands_in_the_file_stays(home: Path) -> None:
    file = home / "rules" / "default.rules"
    file.write_text("# mine")
    allow_prefix(home, ("ls",))
    assert file.read_text() == '# mine\nprefix_rule(pattern=["ls"], decision="allow")\n'


WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2, max_size=4)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 5)
@given(st.lists(WORDS, min_size=1, max_size=10, unique_by=tuple))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, prefixes: list[list[str]]) -> None:
    """A file is read by a process of its own, so each example has several rules."""
    home = tmp_path_factory.mktemp("home")
    for words in prefixes:
        allow_prefix(home, ("x", *words))
    rules = read_rules(home / "rules" / "default.rules").rules
    assert list(rules.prefix_rules) == [PrefixRule("x", tuple((word,) for word in words)) for words in prefixes]


def test_many_programs_may_do_it_at_once(home: Path) -> None:
    program = (
        "import sys, pathlib; from codex_plugin_execpolicy.amendments import allow_prefix\n"
        "for n in range(40): allow_prefix(pathlib.Path(sys.argv[1]), ('x', str(n)))"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(home)]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    lines = (home / "rules" / "default.rules").read_text().splitlines()
    assert sorted(lines) == sorted(f'prefix_rule(pattern=["x", "{n}"], decision="allow")' for n in range(40))


@pytest.mark.parametrize(
    "prefix",
    [
        "python3",
        "python3 -c",
        "/usr/bin/python3.12",
        "py",
        "git",
        "bash -lc",
        "sh -c",
        "sudo",
        "env",
        "node -e",
        "perl -e",
        "pwsh",
    ],
)
def test_what_can_run_anything_cannot_be_allowed(home: Path, prefix: str) -> None:
    assert is_banned(tuple(prefix.split()))
    with pytest.raises(CodexError, match="can run anything"):
        allow_prefix(home, tuple(prefix.split()))


@pytest.mark.parametrize("prefix", ["git push", "python3 manage.py", "npm", "bash run.sh", "shellcheck"])
def test_certain_commands_can(prefix: str) -> None:
    assert not is_banned(tuple(prefix.split()))


def test_prefixes_and_folders_that_cannot_be_written_are_told(home: Path) -> None:
    for prefix in ((), ("",)):
        with pytest.raises(CodexError, match="at least one word"):
            allow_prefix(home, prefix)
    with pytest.raises(CodexError, match="not UTF-8"):
        allow_prefix(home, ("a", "\udcff"))
    (home / "rules").rmdir()
    (home / "rules").write_text("")
    with pytest.raises(CodexError, match=r"default\.rules cannot be written: "):
        allow_prefix(home, ("a",))
