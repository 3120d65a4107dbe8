"""Command lines and programs in forks fail as those in processes of their own do."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.forked import run_program, run_source


def run(tmp_path: Path, source: str) -> subprocess.CompletedProcess[str]:
    return run_source(source, cwd=tmp_path, env={})


def kill(name: str) -> str:
    return f"import os, signal; os.kill(os.getpid(), signal.{name})"


def test_a_program_that_takes_too_long_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(tmp_path, kill("SIGALRM"))
    assert run(tmp_path, kill("SIGKILL")).returncode == -9


@pytest.mark.parametrize(
    ("code", "status", "text"), [(None, 0, ""), (3, 3, ""), (256, 0, ""), ("It failed.", 1, "It failed.\n")]
)
def test_the_status_of_an_exit_is_that_of_the_interpreter(tmp_path: Path, code: object, status: int, text: str) -> None:
    done = run(tmp_path, f"raise SystemExit({code!r})")
    assert (done.returncode, done.stderr) == (status, text)


def test_an_exception_is_told_and_its_status_is_none_of_a_program(tmp_path: Path) -> None:
    done = run(tmp_path, "raise ValueError('canary')")
    assert done.returncode == 70
    assert "ValueError: canary" in done.stderr


def test_nothing_of_the_tests_and_of_another_program_is_there(tmp_path: Path) -> None:
    show = "import os, sys; print('pytest' in sys.modules, 'mine' in vars(os), dict(os.environ), os.getcwd())"
    run(tmp_path, "import os; os.mine = os.environ['MINE'] = '1'")
    assert run(tmp_path, show).stdout == f"False False {{}} {tmp_path}\n"


def test_while_one_runs_another_can(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "first")
    done: list[str] = []
    first = threading.Thread(target=lambda: done.append(run(tmp_path, "print(open('first').read())").stdout))
    first.start()
    assert run(tmp_path, "open('first', 'w').write('from the second')").returncode == 0
    first.join(20)
    assert done == ["from the second\n"]


def test_a_command_line_ends_as_it_does_when_it_is_installed(tmp_path: Path) -> None:
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    for argv in (["--version"], ["config", "get", "model"], ["exec", "--frobnicate"]):
        both = [run_program(*argv, cwd=tmp_path, env=env, fork=fork) for fork in (True, False)]
        assert len({(done.returncode, done.stdout, done.stderr) for done in both}) == 1
