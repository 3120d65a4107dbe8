"""A workplace whose model is on loopback, and the launchers of the plugin."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.roles.launchers import OpenLauncher, Workplace
from codex_framework.testing import ResponsesServer, call, say
from codex_plugin_launchers.in_process import InProcessLauncher
from codex_plugin_launchers.pool import PoolLauncher

Open = Callable[..., Any]


class Place:
    """Where jobs run.

    Attributes:
        folder: The folder of sessions.
        log: The file to which the tools of sessions append lines.
        server: The model.
    """

    def __init__(self, folder: Path, server: ResponsesServer, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.server = server
        self.workplace = Workplace(cwd=str(folder), environ=environ)

    def lines(self) -> list[str]:
        """Return the lines of the log."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    @asynccontextmanager
    async def open(
        self, kind: str = "pool", *, max_sessions: int | None = None, **options: Any
    ) -> AsyncIterator[OpenLauncher]:
        """Open a launcher."""
        launcher = PoolLauncher(**{"workers": 1, **options}) if kind == "pool" else InProcessLauncher(**options)
        opened = await launcher.open(self.workplace, max_sessions=max_sessions)
        try:
            yield opened
        finally:
            await opened.aclose()


def append_lines(count: int) -> Callable[[Any], Any]:
    """Return a model that appends the lines ``PROMPT 1`` to ``PROMPT count`` to the log, one call after the other.

    If the output of a call is lost, it looks whether the line is in the log.
    """

    def reply(request: Any) -> Any:
        items = request.json["input"]
        prompt = next(_text(item) for item in items if _text(item).startswith("job "))
        done = sum(_is_done(item) for item in items)
        if done >= count or len(items) > 10 * count:
            return say(f"done: {prompt}")
        line = f"{prompt} {done + 1}"
        lost = items[-1].get("role") == "user" and done < sum(item["type"] == "function_call" for item in items)
        test = f"grep -qx '{line}' log || " if lost else ""
        return call("exec_command", cmd=f"{test}echo '{line}' >> log; echo o''k")

    return reply


def _text(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    return content[0].get("text", "") if item.get("role") == "user" and content else ""


def _is_done(item: Mapping[str, Any]) -> bool:
    return (
        item["type"] == "function_call_output"
        and "ok" in json.dumps(item["output"])
        and "aborted" not in item["output"]
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Place]]:
    """Return a function that returns a place whose model gives some replies."""
    servers = []

    def make(*replies: Any, config: str = "") -> Place:
        server = ResponsesServer([*replies], repeat_last=True).start()
        servers.append(server)
        home = tmp_path / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f"""{config}
model = "gpt-5.5"
model_provider = "p"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.p]
name = "p"
base_url = "{server.url}"
wire_api = "responses"
"""
        )
        folder = tmp_path / "work"
        folder.mkdir()
        return Place(folder, server, {"CODEX_HOME": str(home), "HOME": str(home)})

    yield make
    for server in servers:
        server.stop()
