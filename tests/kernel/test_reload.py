"""The user's configuration is read again for all threads of a kernel, or for none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, ConfigError
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.testing import say


def models(threads: list[Any]) -> list[Any]:
    return [thread.conversation.next_config.get("review_model") for thread in threads]


def test_all_threads_take_a_changed_file_with_their_next_turn(make_kernel: Any, codex_home: Path) -> None:
    file = codex_home / "config.toml"

    async def main() -> None:
        async with make_kernel([say("x")] * 9) as kernel:
            plain = await kernel.start_thread()
            own = await kernel.start_thread(config={"review_model": "own"})
            child = await plain.conversation.context("test").spawn(Agent(name="child"))
            listener = plain.events()
            file.write_text('review_model = "new"\n[sandbox_workspace_write]\nnetwork_access = true\n')
            (waiting,) = await kernel.reload_user_config()
            assert "`sandbox_workspace_write.network_access`" in waiting
            later = await kernel.start_thread()
            grandchild = await child.conversation.context("test").spawn(Agent(name="child"))
            threads = [plain, own, child, later, grandchild]
            assert models(threads) == ["new", "own", "new", "new", "new"]
            before = plain.settings.permissions
            for thread in threads:
                await thread.run("Go!")
                assert thread.conversation.host.config is thread.conversation.next_config
            assert plain.settings.permissions == later.settings.permissions == before, "nothing was loosened"
            await plain.shutdown()
            told = [event.msg.message async for event in listener if isinstance(event.msg, WarningEvent)]
            assert told.count(waiting) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "text",
    [
        'review_model = "new',
        'review_model = "new"\nreview_modl = 5\n',
        'review_model = "new"\n[mcp_servers.a]\ncommand = "b"\n',  # which does not fit one of the threads
    ],
    ids=["no TOML", "unknown key", "one thread"],
)
def test_a_mistake_changes_nothing_in_any_thread(make_kernel: Any, codex_home: Path, text: str) -> None:
    async def main() -> None:
        async with make_kernel() as kernel:
            threads = [await kernel.start_thread(), await kernel.start_thread(config=own), await kernel.start_thread()]
            before = [kernel.config, *(thread.conversation.next_config for thread in threads)]
            (codex_home / "config.toml").write_text(text)
            with pytest.raises(ConfigError):
                await kernel.reload_user_config()
            after = [kernel.config, *(thread.conversation.next_config for thread in threads)]
            assert all(one is other for one, other in zip(before, after, strict=True))

    own = {"mcp_servers.a.url": "http://127.0.0.1:1"}
    asyncio.run(main())


def test_a_thread_that_starts_during_the_reading_is_not_left_out(make_kernel: Any, codex_home: Path) -> None:
    async def main() -> list[Any]:
        async with make_kernel() as kernel:
            first = await kernel.start_thread()
            (codex_home / "config.toml").write_text('review_model = "new"\n')
            reading = asyncio.ensure_future(kernel.reload_user_config())
            await asyncio.sleep(0)
            own = await kernel.start_thread(config={"compact_prompt": "Short!"})
            first.conversation.context("test").reconfigure({"compact_prompt": "Long!"})
            assert not reading.done()
            await reading
            assert first.conversation.next_config.get("compact_prompt") == "Long!"
            assert own.conversation.next_config.get("compact_prompt") == "Short!"
            return [first, own]

    assert models(asyncio.run(main())) == ["new", "new"]
