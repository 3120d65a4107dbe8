"""Locks on files: only a file system that has none is worked on without."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.toolkit.file_locks import try_lock


@pytest.fixture
def opened(tmp_path: Path):
    found = [os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    yield found
    for descriptor in found:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("first", "second", "free"), [(False, False, False), (True, False, False), (False, True, False), (True, True, True)]
)
def test_only_shared_locks_go_together(opened: list[int], first: bool, second: bool, free: bool):
    assert try_lock(opened[0], shared=first)
    assert try_lock(opened[1], shared=second) is free


def test_another_process_respects_it(opened: list[int], tmp_path: Path):
    code = "import os, sys\nfrom codex_framework.toolkit.file_locks import try_lock\n"
    code += "print(try_lock(os.open(sys.argv[1], os.O_RDWR)))"
    assert try_lock(opened[0])
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, check=True)
    assert done.stdout == b"False\n"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_locks_nothing(opened: list[int], monkeypatch: pytest.MonkeyPatch, code: int):
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    assert try_lock(opened[0])


@pytest.mark.parametrize("code", [errno.EIO, errno.EBADF, errno.ESTALE, errno.ENOSPC, errno.EACCES])
def test_any_other_error_is_raised(opened: list[int], monkeypatch: pytest.MonkeyPatch, code: int):
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OSError, match=os.strerror(code)):
        try_lock(opened[0])
