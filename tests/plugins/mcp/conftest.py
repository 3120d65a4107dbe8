"""The command ``mcp`` with the plugin's own context."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from codex_framework import CodexError
from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_plugin_mcp.cli import McpGroup

SERVER = Path(__file__).parent / "scripted_server.py"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first sample wait for all servers: with many tests at once, a server may take longer to start than users would wait."""
    monkeypatch.setattr("codex_plugin_mcp.connections.GRACE_MS", 60_000)


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


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., str]:
    """Return the setting for a scripted server."""

    def make(name: str = "srv", *, mode: str = "approve", keys: str = "", **settings: Any) -> str:
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"log": str(tmp_path / f"{name}.log"), **settings}))
        command, arguments = json.dumps(sys.executable), json.dumps([str(SERVER), f"@{file}"])
        extra = f", {keys}" if keys else ""
        return (
            f"mcp_servers.{name}={{command={command}, args={arguments}, default_tools_approval_mode={mode!r}{extra}}}"
        )

    return make


@pytest.fixture
def play(make_thread: Any) -> Callable[..., Any]:
    """Run a story with a thread that has these settings."""

    def run(story: Callable[[Any], Any], *config: str, answers: Any = (), **more: Any) -> Any:
        async def main() -> Any:
            async with make_thread(None, *answers, config=list(config), **more) as thread, asyncio.timeout(60):
                return await story(thread)

        return asyncio.run(main())

    return run
