"""JSON-RPC with a server that sends odd messages."""

from __future__ import annotations

import asyncio
import json

import pytest

from codex_plugin_mcp.peer import Peer


class Line:
    """A transport whose messages a test puts in."""

    def __init__(self):
        self.sent = []
        self.queue = asyncio.Queue()

    async def start(self):
        pass

    async def send(self, message):
        self.sent.append(message)

    async def messages(self):
        while (message := await self.queue.get()) is not None:
            yield message

    def negotiated(self, version):
        pass

    def why_ended(self):
        return "gone"

    async def aclose(self):
        self.queue.put_nowait(None)


ODD = [
    {"method": "notifications/progress", "params": {"progressToken": 0, "progress": 10**400}},
    {"method": "notifications/progress", "params": {"progressToken": 0, "progress": 1, "total": 10**400}},
    {"method": "notifications/progress", "params": {"progressToken": [], "progress": 1}},
    {"method": "notifications/progress", "params": 7},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"id": [], "method": "ping"},
    {"id": {}, "result": {}},
    {"id": True, "result": {}},
    {"id": 10**30, "result": {}},
    {"id": 0, "method": 7},
    {"id": "0", "result": "no answer to 0"},
]


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
def test_no_message_ends_the_connection(odd):
    async def main():
        line, faults, progress = Line(), [], []
        peer = Peer(line, {}, on_fault=faults.append)
        await peer.start()
        request = asyncio.ensure_future(peer.request("x", on_progress=lambda *given: progress.append(given)))
        await asyncio.sleep(0)
        line.queue.put_nowait({"jsonrpc": "2.0", **odd})
        line.queue.put_nowait({"jsonrpc": "2.0", "id": 0, "result": "fine"})
        result = await asyncio.wait_for(request, 60)
        await peer.aclose()
        return result, progress

    result, progress = asyncio.run(main())
    assert result == "fine"
    assert all(total is None for _, total, _ in progress)


def test_a_handler_of_progress_that_fails_does_not_end_the_connection():
    async def main():
        line, faults = Line(), []
        peer = Peer(line, {}, on_fault=faults.append)
        await peer.start()

        def fail(*_):
            raise OSError("the turn has ended")

        request = asyncio.ensure_future(peer.request("x", on_progress=fail))
        await asyncio.sleep(0)
        line.queue.put_nowait({"method": "notifications/progress", "params": {"progressToken": 0, "progress": 1}})
        line.queue.put_nowait({"id": 0, "result": "fine"})
        result = await asyncio.wait_for(request, 60)
        await peer.aclose()
        return result, faults

    result, (fault,) = asyncio.run(main())
    assert result == "fine"
    assert "OSError: the turn has ended" in fault
