from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_framework import shell_argv, user_shell


def test_a_script_runs_in_the_persons_shell_as_a_login_shell_unless_told_otherwise() -> None:
    shell = user_shell()
    assert os.access(shell, os.X_OK)
    assert shell_argv("echo hi") == (shell, "-lc", "echo hi")
    assert shell_argv("echo hi", login=False) == (shell, "-c", "echo hi")


@pytest.mark.parametrize("shell", ["/no/such/shell", "no-such-shell", "/usr/bin/env", ""])
def test_what_is_no_posix_shell_falls_back_to_bin_sh(shell: str) -> None:
    assert shell_argv("x", shell=shell) == ("/bin/sh", "-lc", "x")


def test_a_shells_name_is_looked_up() -> None:
    program = shell_argv("x", shell="sh")[0]
    assert Path(program).is_absolute()
    assert Path(program).name == "sh"
