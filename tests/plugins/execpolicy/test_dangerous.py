"""Commands that destroy without a question."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from codex_framework import CommandVerdict, Verdict
from codex_plugin_execpolicy.dangerous import dangerous_commands

Judge = Callable[..., CommandVerdict | None]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rm -f x",
            "rm -rf x",
            "rm -fr x",
            "rm -Rf x",
            "rm -r -f x",
            "rm --force x",
            "/bin/rm -rf x",
            "sudo rm -rf x",
        ),
        *("sudo sudo rm -f x", "sudo -u root rm -rf x", "sudo -n -- rm -f x", "sudo A=1 rm -f x"),
        *("rm x -f", "rm -v x -rf", "env rm -f x", "env -u B A=1 rm -f x", "sudo env -i rm -f x"),
        *("nohup rm -rf x", "timeout 9 rm -f x", "xargs rm -f", "find . -exec rm -rf {} +", "env -Srm -f x"),
    ],
)
def test_a_forced_rm_is_dangerous(command: str) -> None:
    assert dangerous_commands([tuple(command.split())])


@pytest.mark.parametrize("depth", range(6))
def test_a_forced_rm_is_found_in_scripts_within_scripts(judge: Judge, depth: int) -> None:
    command = ["rm", "-rf", "x"]
    for _ in range(depth):
        command = ["bash", "-c", shlex.join(command)]
    verdict = judge(command)
    assert verdict is not None
    assert verdict.verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    ["", "rm x", "rm -r x", "env", "env A=1", "rm -- -f", "ls -rf", "sudo ls", "sudo", "git rm -f x", "echo rm -rf"],
)
def test_anything_else_is_not(command: str) -> None:
    assert not dangerous_commands([tuple(command.split())])


def test_a_line_with_too_many_commands_counts_as_dangerous() -> None:
    assert dangerous_commands([("env",) * 60_000])
