"""Checks that run in an environment with the Python SDK of the Agent Client Protocol: ``python acp_client.py CHECK``.

The variables BRIDGE, PROGRAM, WORK and HOME name the bridge ``codex-acp``, the command under test, the workspace and the user's
folder.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.interfaces import Client
from acp.schema import AllowedOutcome, Implementation, RequestPermissionResponse

WORK = os.environ["WORK"]
MARK = Path(os.environ["HOME"]) / "mark"
ENV = {**os.environ, "CODEX_PATH": os.environ["PROGRAM"], "MODEL_PROVIDER": "here"}


class Editor(Client):
    """Keeps what the agent shows, and answers its questions by the kind of an option."""

    def __init__(self, answer: str = "allow_once") -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.answer = answer
        self.working = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)
        if type(update).__name__.startswith("ToolCall"):
            self.working.set()

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **more: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        chosen = next(option for option in options if option.kind == self.answer)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def ext_notification(self, *arguments: Any, **more: Any) -> None:
        pass

    def text(self) -> str:
        return "".join(each.content.text for each in self.updates if type(each).__name__ == "AgentMessageChunk")


@asynccontextmanager
async def agent(editor: Editor) -> AsyncIterator[Any]:
    async with spawn_agent_process(editor, "node", os.environ["BRIDGE"], env=ENV) as (connection, _):
        await connection.initialize(
            protocol_version=PROTOCOL_VERSION, client_info=Implementation(name="probe", version="1")
        )
        yield connection


async def initialize() -> None:
    async with agent(Editor()) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        modes = [mode.id for mode in session.modes.available_modes]
        assert modes == ["read-only", "workspace-write", "agent", "agent-full-access"]


async def prompt() -> None:
    editor = Editor()
    async with agent(editor) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        ended = await connection.prompt(prompt=[text_block("hi")], session_id=session.session_id)
        assert ended.stop_reason == "end_turn"
        assert ended.usage.total_tokens == 120
        assert editor.text() == "one"


async def two_prompts() -> None:
    editor = Editor()
    async with agent(editor) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        for text in ("a", "b"):
            await connection.prompt(prompt=[text_block(text)], session_id=session.session_id)
        assert editor.text() == "onetwo"


async def _asked(answer: str) -> Editor:
    editor = Editor(answer)
    async with agent(editor) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        await connection.set_session_mode(session_id=session.session_id, mode_id="workspace-write")
        ended = await connection.prompt(prompt=[text_block("go")], session_id=session.session_id)
        assert ended.stop_reason == "end_turn", ended
        assert len(editor.asked) == 1
    return editor


async def tool_call_and_permission() -> None:
    editor = await _asked("allow_once")
    assert MARK.read_text() == "x\n"
    assert "completed" in [getattr(each, "status", None) for each in editor.updates]


async def permission_rejected() -> None:
    await _asked("reject_once")
    assert not MARK.exists()


async def cancel() -> None:
    editor = Editor()
    async with agent(editor) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        await connection.set_session_mode(session_id=session.session_id, mode_id="agent-full-access")
        running = asyncio.ensure_future(connection.prompt(prompt=[text_block("go")], session_id=session.session_id))
        await editor.working.wait()
        await connection.cancel(session_id=session.session_id)
        assert (await running).stop_reason == "cancelled"


async def load_session() -> None:
    async with agent(Editor()) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        await connection.prompt(prompt=[text_block("first")], session_id=session.session_id)
    editor = Editor()
    async with agent(editor) as connection:
        await connection.load_session(cwd=WORK, session_id=session.session_id, mcp_servers=[])
        assert editor.text() == "one"
        await connection.prompt(prompt=[text_block("second")], session_id=session.session_id)
        assert editor.text() == "onetwo"


async def list_sessions() -> None:
    async with agent(Editor()) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        await connection.prompt(prompt=[text_block("first")], session_id=session.session_id)
        listed = (await connection.list_sessions()).sessions
        assert [each.session_id for each in listed] == [session.session_id]


async def failed_turn() -> None:
    editor = Editor()
    async with agent(editor) as connection:
        session = await connection.new_session(cwd=WORK, mcp_servers=[])
        await connection.prompt(prompt=[text_block("go")], session_id=session.session_id)
        assert "probe failure text" in editor.text()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(globals()[sys.argv[1]](), 100))
    print("ok")
