"""Command lines in forks of the test's process fail as those in processes of their own do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests import forked


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: Callable[[], int]) -> subprocess.CompletedProcess[str]:
    monkeypatch.setattr(forked, "main", main)
    return forked.run_forked([], cwd=tmp_path, env={})


def kill(number: int) -> int:
    os.kill(os.getpid(), number)
    return 0


def leave(code: object) -> NoReturn:
    raise SystemExit(code)


def fail() -> NoReturn:
    raise ValueError("canary")


def test_a_command_that_takes_too_long_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(tmp_path, monkeypatch, lambda: kill(signal.SIGALRM))
    assert run(tmp_path, monkeypatch, lambda: kill(signal.SIGKILL)).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "status", "text"), [(None, 0, ""), (3, 3, ""), (256, 0, ""), ("It failed.", 1, "It failed.\n")]
)
def test_the_status_of_an_exit_is_that_of_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: object, status: int, text: str
) -> None:
    done = run(tmp_path, monkeypatch, lambda: leave(code))
    assert (done.returncode, done.stderr) == (status, text)


def test_an_exception_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="ValueError: canary"):
        run(tmp_path, monkeypatch, fail)
