"""Clients that others wrote, installed once a day into the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_DAY_S = 86_400


def python_with(name: str, *packages: str, alone: Sequence[str] = ()) -> Path:
    """Return the interpreter of an environment with packages.

    Args:
        alone: Packages that are installed without their dependencies.
    """
    uv = [sys.executable, "-m", "uv"]

    def install(folder: Path) -> None:
        python = folder / "venv/bin/python"
        pip = [*uv, "pip", "install", "-q", "-U", "--python", str(python)]
        _run([*uv, "venv", "-q", "--clear", str(folder / "venv")], folder)
        _run([*pip, *packages], folder)
        if alone:
            _run([*pip, "--no-deps", *alone], folder)

    return _installed(name, install) / "venv/bin/python"


def node_modules(name: str, *packages: str) -> Path:
    """Return a folder ``node_modules`` with packages, without their optional dependencies, which are large programs."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    flags = ["--omit=optional", "--no-audit", "--no-fund", "--silent"]
    return _installed(name, lambda folder: _run([npm, "install", *flags, *packages], folder)) / "node_modules"


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "codex-framework-tests" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "installed"
        if not stamp.exists() or time.time() - stamp.stat().st_mtime > _DAY_S:
            try:
                install(folder)
            except (OSError, subprocess.SubprocessError) as error:
                if not stamp.exists():
                    pytest.skip(f"{name} cannot be installed: {getattr(error, 'stderr', '') or error}"[-500:])
            else:
                stamp.touch()
    return folder


def _run(argv: Sequence[str], folder: Path) -> None:
    subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
