"""Codex's index of sessions has the modes that were set here, and the modes that Codex sets are read here."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ResponsesServer, say
from codex_plugin_memory_mode import SetThreadMemoryMode, memory_mode
from tests.plugins.rollout.conftest import AppServer


@pytest.mark.slow
def test_codex_reads_our_modes_and_we_read_its(
    make_kernel: Any, codex_home: Path, tmp_path: Path, codex_binary: str
) -> None:

    async def first() -> tuple[str, str]:
        async with make_kernel([say("hi")] * 3) as kernel:
            early, late = await kernel.start_thread(source="cli"), await kernel.start_thread()
            await early.submit(SetThreadMemoryMode("disabled"))
            await early.run("Go!")
            await late.run("Go!")
            await late.submit(SetThreadMemoryMode("disabled"))
            return str(early.id), str(late.id)

    async def second(thread_id: str) -> str:
        async with make_kernel() as kernel:
            return memory_mode((await kernel.resume_thread(thread_id)).meta)

    def indexed() -> dict[str, str]:
        (database,) = codex_home.glob("state_*.sqlite")
        with sqlite3.connect(database) as connection:
            return dict(connection.execute("SELECT id, memory_mode FROM threads"))

    early, late = asyncio.run(first())
    config = codex_home / "config.toml"
    config.write_text('[model_providers.scripted]\nname = "scripted"\nbase_url = "http://127.0.0.1:1/v1"\n')
    with (
        ResponsesServer([say("x")]) as server,
        AppServer(codex_binary, codex_home, tmp_path / "work", server.url) as app,
    ):
        app.request("thread/list", limit=10)
        deadline = time.monotonic() + 20
        while set(indexed()) != {early, late} and time.monotonic() < deadline:
            time.sleep(0.05)
        assert indexed() == {early: "disabled", late: "disabled"}
        app.request("thread/resume", threadId=late)
        app.request("thread/memoryMode/set", threadId=late, mode="enabled")
        assert indexed() == {early: "disabled", late: "enabled"}
    config.unlink()
    assert asyncio.run(second(late)) == "enabled"
    assert asyncio.run(second(early)) == "disabled"
