"""The command ``mcp`` with the plugin's own context."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from codex_framework import CodexError
from codex_framework.config import load_config
from codex_framework.plugins.context import LoadContext
from codex_plugin_mcp.cli import McpGroup


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first sample wait for all servers: with many tests at once, a server may take longer to start than users would wait."""
    monkeypatch.setattr("codex_plugin_mcp.connections.PATIENCE_S", 60.0)


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str
    error: CodexError | None

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def mcp(home: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Run ``mcp`` with the plugin's own context, in a folder."""

    def run(*words: str, cwd: Path = tmp_path) -> Ran:
        environ = {"CODEX_HOME": str(home), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        plugin = LoadContext("mcp", load_config(cwd=cwd, environ=environ), environ)
        result = CliRunner().invoke(McpGroup(plugin), words)
        error = result.exception
        if error is not None and not isinstance(error, (CodexError, SystemExit)):
            raise error
        return Ran(result.exit_code, result.stdout, result.stderr, error if isinstance(error, CodexError) else None)

    return run
