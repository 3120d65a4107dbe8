"""A whole conversation, recorded from a server and played back without one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from codex_framework import Kernel, Message
from codex_framework.config import load_config
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.testing import ResponsesServer, call, fault, reply, say
from codex_plugin_compaction import Compact


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


def test_a_compaction_by_the_server_is_recorded_and_plays_back(codex_home: Path, tmp_path: Path) -> None:
    cassette, cwd = tmp_path / "cassette.jsonl", tmp_path / "work"
    cwd.mkdir()
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}

    async def run() -> tuple[list[Any], list[str]]:
        environ = {"CODEX_HOME": str(codex_home), "HOME": str(tmp_path), "PATH": os.defpath}
        kernel = await Kernel.create(load_config(cwd=cwd, environ=environ), environ=environ)
        try:
            thread = await kernel.start_thread()
            events = thread.events()
            for number in range(2):
                await thread.run(f"look {number}")
                await thread.submit(Compact())
                await thread.settled()
            await thread.run("go on")
            await thread.shutdown()
        finally:
            await kernel.aclose()
        told = [event.msg.message async for event in events if event.msg.type in ("warning", "error")]
        return [to_wire(item) for item in thread.history.items if not isinstance(item, Message)], told

    def configure(table: str) -> None:
        (codex_home / "config.toml").write_text(f'model_provider = "m"\n[model_providers.m]\n{table}\n')

    refused = fault(404, body={"error": {"message": "No such item."}})
    replies = [say("one"), reply(UnknownItem(sealed)), say("two"), refused, say("They looked."), say("bye")]
    with ResponsesServer(replies) as server:
        configure(f'base_url = "{server.url}"\nremote_compaction = true\nrecord = "{cassette}"')
        recorded = asyncio.run(run())
        assert len(server.requests) == len(replies)
    assert [text for text in recorded[1] if "did not compact" in text]
    configure(f'wire_api = "replay"\ncassette = "{cassette}"')
    assert asyncio.run(run()) == recorded
