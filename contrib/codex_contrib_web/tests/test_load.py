"""Many clients on many threads in one process. ``benchmarks/web.py`` has a thousand of them."""

from __future__ import annotations

import asyncio
from typing import Any

from web_client import follow, types

from codex_framework.testing import say

MANY = 40


def test_each_of_many_clients_gets_every_event_of_its_thread_in_order(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("one two three four", deltas=4)]) as client:

            async def run() -> None:
                path = await client.start()
                cursor, number = "", 0
                for _ in range(2):
                    status, told = await client.post(f"{path}/turns", {"input": "Hi!"})
                    assert status == 202
                    async with client.events(path, cursor) as stream:
                        seen = await stream.until("task_complete")
                    assert [each["number"] for each in seen] == list(range(number + 1, number + len(seen) + 1))
                    assert seen[-1]["id"] == told["turn_id"]
                    assert types(seen).count("agent_message_content_delta") == 4
                    cursor, number = stream.cursor, seen[-1]["number"]

            await asyncio.gather(*(run() for _ in range(MANY)))
            assert len(client.kernel.threads) == MANY

    asyncio.run(main())


def test_many_clients_follow_one_thread(site: Any) -> None:
    async def main() -> None:
        async with site.client([say("one two three four", deltas=4)]) as client:
            path = await client.start()
            following = [asyncio.ensure_future(follow(client, path, "task_complete")) for _ in range(MANY)]
            await client.post(f"{path}/turns", {"input": "Hi!"})
            first, *others = await asyncio.gather(*following)
            assert all(other == first for other in others)

    asyncio.run(main())
