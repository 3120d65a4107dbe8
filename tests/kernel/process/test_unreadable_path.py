"""A folder on PATH that may not be searched does not change what is said of a program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys
from codex_framework.commands.process.running import start_command
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.errors import CommandFailed
for argv in (["no-such-program"], ["refused"], ["/nowhere/true"], ["true"]):
    try:
        asyncio.run(start_command(Unconfined(), argv=argv, cwd=sys.argv[1], env={"PATH": sys.argv[2]}))
        print("started")
    except CommandFailed as error:
        print(error.fact)
"""


@pytest.fixture
def unprivileged() -> list[str]:
    """The beginning of a command line for a process that may not read everything."""
    if os.geteuid():
        return []
    if not shutil.which("setpriv"):
        pytest.skip("root may search every folder, and there is no setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


def test_a_missing_program_is_missing_and_a_refused_one_refused(tmp_path: Path, unprivileged: list[str]) -> None:
    closed, files = tmp_path / "closed", tmp_path / "files"
    closed.mkdir()
    files.mkdir()
    (files / "refused").write_text("#!/bin/sh\n")
    closed.chmod(0)
    search = os.pathsep.join([str(closed / "bin"), str(closed), str(files), "/usr/bin", "/bin"])
    try:
        done = subprocess.run(
            [*unprivileged, sys.executable, "-c", SCRIPT, str(tmp_path), search],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        closed.chmod(0o700)
    missing, refused = "No such file or directory (os error 2)", "Permission denied (os error 13)"
    assert done.stdout.splitlines() == [missing, refused, missing, "started"], done.stderr
