"""Repositories, and threads that take snapshots of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def git() -> Callable[..., str]:
    """Run the user's git in a folder and return its output."""

    def run(folder: Path, *argv: str) -> str:
        command = ["git", "-c", "user.name=u", "-c", "user.email=u@example.com", "-C", str(folder), *argv]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture
def repo(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A repository with two commits' worth of files, an ignored and an untracked one."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a = 1\n")
    (root / "b.txt").write_bytes(b"one\r\ntwo\n\xff")
    (root / ".gitignore").write_text("ignored*\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    (root / "untracked.txt").write_text("mine\n")
    (root / "ignored.env").write_text("secret\n")
    return root
