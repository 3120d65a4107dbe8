"""Lists of tools that arrive when their session is over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from codex_plugin_mcp.connection import Connection
from codex_plugin_mcp.servers import ServerConfig

OPENING = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}


class Line:
    """A transport that answers at once, but for the second list of tools, which a test answers."""

    process_id = None

    def __init__(self):
        self.queue = asyncio.Queue()
        self.lists = []

    async def start(self):
        pass

    async def send(self, message):
        if message["method"] == "initialize":
            self.answer(message["id"], OPENING)
        elif message["method"] == "tools/list":
            self.lists.append(message["id"])
            if len(self.lists) == 1:
                self.answer(message["id"], {"tools": [{"name": "old"}]})

    def answer(self, number, result):
        self.queue.put_nowait({"jsonrpc": "2.0", "id": number, "result": result})

    async def messages(self):
        while (message := await self.queue.get()) is not None:
            yield message

    def negotiated(self, version):
        pass

    def why_ended(self):
        return "gone"

    async def aclose(self):
        self.queue.put_nowait(None)


def test_a_list_of_an_earlier_session_is_not_taken():
    async def run():
        lines, changes = [], []

        def transport(_):
            lines.append(Line())
            return lines[-1]

        connection = Connection(
            ServerConfig(name="s", command="s"),
            SimpleNamespace(warn=print),
            make_transport=transport,
            changed=lambda: changes.append(connection.tools),
            told=lambda _: None,
            save_approval=None,
        )
        await connection.open()
        first = lines[0]
        first.queue.put_nowait({"method": "notifications/tools/list_changed"})
        while len(first.lists) < 2:
            await asyncio.sleep(0)
        before, connection.session = connection.session, None  # as while it is started again
        first.answer(first.lists[1], {"tools": [{"name": "stale"}]})
        for _ in range(20):
            await asyncio.sleep(0)
        connection.session = before
        await connection.aclose()
        return [tool["name"] for tool in connection.tools], len(changes)

    assert asyncio.run(run()) == (["old"], 1)
