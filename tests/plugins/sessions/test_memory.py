"""The thread store ``memory``: kernels that keep their threads without writing anything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, Kernel, Message, ThreadError
from codex_framework.config import load_config
from codex_framework.contract.protocol.items import message_text
from codex_framework.contract.roles.outcomes import RolledBack
from codex_framework.contract.roles.stores import ThreadQuery
from codex_framework.testing import ResponsesServer, say


def prompts(server: ResponsesServer) -> list[str]:
    texts = [part["text"] for item in server.inputs[-1] if item.get("role") == "user" for part in item["content"]]
    return [text for text in texts if not text.startswith("<")]


def test_a_thread_in_memory_is_resumed_and_forked_and_nothing_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    async def use(server: ResponsesServer) -> None:
        overrides = (
            'model="m"',
            'model_provider="p"',
            f'model_providers.p={{name="p",base_url="{server.url}"}}',
            'framework.thread_store="memory"',
            "framework.plugins.disabled=['undo']",
        )
        config = load_config(
            cwd=tmp_path, environ={"CODEX_HOME": str(home), "HOME": str(tmp_path)}, overrides=overrides
        )
        async with await Kernel.create(config) as kernel:
            thread = await kernel.start_thread()
            for text in ("one", "two"):
                await thread.run(text)
            await thread.shutdown()
            resumed = await kernel.resume_thread(thread.id)
            await resumed.run("three")
            assert prompts(server) == ["one", "two", "three"]
            fork = await kernel.resume_thread(kernel.fork_thread(thread.id, at=1))
            assert fork.conversation.origin == "forked"
            await fork.run("other")
            assert prompts(server) == ["one", "other"]
            with pytest.raises(ThreadError, match="has no turn 9"):
                kernel.fork_thread(thread.id, at=9)
            assert kernel.latest_thread() == fork.id
            store = kernel.registry.thread_stores["memory"]
            listed: Any = [each.preview for each in store.find(ThreadQuery(), str(home)).threads]
            assert listed == ["one", "one"]
            said = [message_text(item) for item in store.load(fork.id, str(home)).history if isinstance(item, Message)]
            assert said[-1] == "four"

    with ResponsesServer([say(word) for word in ("first", "second", "third", "four")]) as server:
        asyncio.run(asyncio.wait_for(use(server), 60))
    assert [path.name for path in home.rglob("*") if path.suffix in (".jsonl", ".lock")] == []


def test_a_store_without_files_keeps_children_and_rolls_back(make_thread: Any) -> None:
    async def use() -> None:
        config = 'framework.thread_store="memory"'
        replies = [say("One."), say("Two."), say("Child.")]
        async with make_thread(None, replies=replies, config=(config,)) as thread:
            store, home = thread.kernel.registry.thread_stores["memory"], str(thread.kernel.config.codex_home)
            await thread.turn("one")
            await thread.turn("two")
            inside = thread.inside("sessions")
            await inside.edit_history(RolledBack(1))
            assert [turn.first_event for turn in store.load(thread.client.id, home).turns] == [0]
            child = await inside.spawn(Agent(name="worker"))
            await child.run("go")
            assert store.load(child.id, home).meta.extra["parent_thread_id"] == thread.client.id
            assert [each.id for each in store.find(ThreadQuery(), home).threads] == [thread.client.id]

    asyncio.run(asyncio.wait_for(use(), 60))
