"""Whole turns, called by the official SDK's client, in the revisions with and without a channel back to the client."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework.testing import call, say

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def client(home: Any, *options: str, **more: Any) -> Any:
    from mcp import Client, StdioServerParameters

    command, *arguments = home.argv(*options)
    return Client(StdioServerParameters(command=command, args=arguments, env=home.env, cwd=str(home.work)), **more)


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.thorough), "auto"])
def test_a_turn_with_an_approval_and_a_reply(home, play, mode) -> None:
    from mcp import types

    model = home.serve(call("exec_command", cmd="touch made"), say("done"), say("and more"))
    asked: list[Any] = []
    steps: list[str | None] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params)
        assert not (home.work / "made").exists()
        return types.ElicitResult(action="accept", content={"decision": "approved"})

    async def progress(done: float, total: float | None, text: str | None) -> None:
        steps.append(text)

    async def story() -> None:
        async with client(home, mode=mode, elicitation_callback=elicit) as server:
            assert server.session.protocol_version == MODES[mode]
            tools = {tool.name: tool for tool in (await server.list_tools()).tools}
            assert tools.keys() == {"codex", "codex-reply"}
            first = await server.call_tool(
                "codex",
                {"prompt": "make it", "approval-policy": "untrusted", "sandbox": "workspace-write"},
                progress_callback=progress,
            )
            assert first.structured_content == {"threadId": first.structured_content["threadId"], "content": "done"}
            assert first.content == [types.TextContent(text="done")]
            again = await server.call_tool(
                "codex-reply", {"prompt": "go on", "threadId": first.structured_content["threadId"]}
            )
            assert again.structured_content == {**first.structured_content, "content": "and more"}

    play(story())
    assert [question.message for question in asked] == [
        (
            f"Allow Codex to run `/bin/bash -lc 'touch made'` in `{home.work}`?\n"
            "“For this session” covers the same command in the same folder, until a file that it names changes."
        )
    ]
    assert asked[0].requested_schema["properties"]["decision"]["enum"][0] == "approved"
    assert (home.work / "made").exists()
    assert "Running /bin/bash -lc 'touch made'" in steps
    assert [item["content"][0]["text"] for item in model.inputs[2] if item.get("role") == "user"][-2:] == [
        "make it",
        "go on",
    ]
