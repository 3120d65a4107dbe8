"""A whole conversation, recorded from a server and played back without one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.testing import ResponsesServer, call, say


def test_a_recorded_thread_plays_back_without_its_server(codex_home: Path, tmp_path: Path) -> None:
    cassette, cwd = tmp_path / "cassette.jsonl", tmp_path / "work"
    cwd.mkdir()
    plan = {"plan": [{"step": "Look", "status": "completed"}]}

    async def run(prompts: list[str]) -> list[tuple[str | None, str | None]]:
        environ = {"CODEX_HOME": str(codex_home), "HOME": str(tmp_path), "PATH": os.defpath}
        kernel = await Kernel.create(load_config(cwd=cwd, environ=environ), environ=environ)
        try:
            thread = await kernel.start_thread()
            results = [await thread.run(prompt) for prompt in prompts]
        finally:
            await kernel.aclose()
        return [(result.final_message, result.error) for result in results]

    def configure(table: str) -> None:
        (codex_home / "config.toml").write_text(f'model_provider = "m"\n[model_providers.m]\n{table}\n')

    with ResponsesServer([call("update_plan", plan) + call("no_such_tool"), say("looked"), say("bye")]) as server:
        configure(f'base_url = "{server.url}"\nrecord = "{cassette}"')
        recorded = asyncio.run(run(["look", "leave"]))
    configure(f'wire_api = "replay"\ncassette = "{cassette}"')
    assert recorded == [("looked", None), ("bye", None)]
    assert asyncio.run(run(["look", "leave"])) == recorded
    ((_, error),) = asyncio.run(run(["look again"]))
    assert error is not None
    assert f"the cassette {cassette} has no answer to this request" in error
    assert '-   "text": "look",' in error
    assert '+   "text": "look again",' in error
