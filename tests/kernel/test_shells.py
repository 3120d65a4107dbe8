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


@pytest.mark.parametrize(
    "shell", ["/no/such/shell", "no-such-shell", "/usr/bin/env", "", "dash", "ksh", "fish", "python3"]
)
def test_what_is_no_posix_shell_falls_back_to_bin_sh(shell: str) -> None:
    assert shell_argv("x", shell=shell) == ("/bin/sh", "-lc", "x")


def test_a_shells_name_is_looked_up() -> None:
    program = shell_argv("x", shell="sh")[0]
    assert Path(program).is_absolute()
    assert Path(program).name == "sh"
    assert program == "/usr/bin/sh" or not Path("/usr/bin/sh").exists(), "as Codex finds it"


def test_the_name_of_the_persons_shell_means_this_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    from codex_framework.commands import shells

    monkeypatch.setattr(shells, "user_shell", lambda: "/opt/own/bash")
    shells._find.cache_clear()
    try:
        assert [shell_argv("x", shell=shell)[0] for shell in ("bash", "/opt/own/bash")] == ["/opt/own/bash"] * 2
    finally:
        shells._find.cache_clear()


def test_a_file_with_the_name_of_a_shell_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bash").write_text("#!/bin/sh\n")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    for shell in (f"{tmp_path}/bash", "./bash", "//tmp/../" + str(tmp_path) + "/bash"):
        assert shell_argv("x", shell=shell)[0] == "/bin/sh"
    assert Path(shell_argv("x", shell="bash")[0]).parent != tmp_path
