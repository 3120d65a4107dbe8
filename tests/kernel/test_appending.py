"""Appending to files: whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.toolkit.appending import append_whole

FULL = """
import os, resource, sys
from codex_framework.toolkit.appending import append_whole
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    append_whole(file, b"0123456789", 4)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("sync", [True, False])
def test_data_goes_to_the_end(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    append_whole(file, b"two\n", 4, sync=sync)
    os.close(file)
    assert path.read_bytes() == b"one\ntwo\n"


def test_what_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    done = subprocess.run([sys.executable, "-B", "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert path.read_bytes() == b"one\n"


def test_what_cannot_be_synced_is_taken_back_unless_somebody_else_has_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    others = [b"", b"theirs\n"]

    def broken(_: int) -> None:
        with path.open("ab") as other:
            other.write(others.pop(0))
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    for left in (b"one\n", b"one\ntwo\ntheirs\n"):
        with pytest.raises(OSError, match="Input/output"):
            append_whole(file, b"two\n", 4, sync=True)
        assert path.read_bytes() == left
    os.close(file)
