"""The pytest plugin (entry point ``pytest11``): fixtures for the tests of plugins and of programs built on the kernel.

Imports nothing of the kernel until a fixture is used, so that it costs other test suites nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["codex_home"]


@pytest.fixture
def codex_home(tmp_path: Path) -> Path:
    """An empty ``$CODEX_HOME`` of the test's own."""
    home = tmp_path / "codex-home"
    home.mkdir()
    return home
