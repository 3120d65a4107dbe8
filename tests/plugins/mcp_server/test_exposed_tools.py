"""Tools of plugins over the protocol: their definitions, their calls, approvals and the sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

PLUGIN = '''
import asyncio
from codex_framework import (
    Approval, InputImage, InputText, Request, ToolContext, ToolOutput, freeform_tool, hookimpl, tool,
)

PIXEL = "data:image/png;base64,iVBORw0KGgo="

@tool(parallel_safe=True)
async def wait_for(other: str, mine: str, context: ToolContext) -> str:
    """Wait until a file exists, and make another."""
    context.progress("waiting", done=0.5)
    await context.write_text(mine, "x")
    while not context.resolve(other).exists():
        await asyncio.sleep(0.01)
    return f"{mine} has seen {other}"

@tool
def picture() -> ToolOutput:
    """Return an image."""
    print("stray")
    return ToolOutput((InputText("a pixel"), InputImage(PIXEL)), details={"width": 1})

picture.annotations = {"readOnlyHint": True, "secret": 1}

@freeform_tool(grammar="start: /.+/")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()

@tool
async def alone(name: str, context: ToolContext) -> str:
    """Run alone."""
    log = context.resolve("log")
    for word in ("begin", "end"):
        with log.open("a") as file:
            file.write(f"{word} {name}\\n")
        await asyncio.sleep(0.02)
    return name

@tool(needs_approval=True, parallel_safe=True)
def guarded() -> str:
    """Do something that needs an approval."""
    return "done"

class KeepGoing(Request[bool]):
    type = "keep_going"
    answer_type = bool

    def unattended(self):
        return True

@tool
async def patient(context: ToolContext) -> str:
    """Ask whether to keep going."""
    return str(await context.request(KeepGoing()))

@tool
def broken() -> str:
    """Fail."""
    raise RuntimeError("no luck")

@hookimpl
def codex_tools():
    return [wait_for, picture, shout, guarded, patient, broken, alone]

@hookimpl
def codex_events():
    return [KeepGoing]
'''


@pytest.fixture
def options(home: Any, tmp_path: Path) -> Any:
    from codex_plugin_mcp_server.options import Options

    plugin = tmp_path / "own.py"
    plugin.write_text(PLUGIN)
    tight = "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true"
    home.serve(more=f'approval_policy = "on-request"\nsandbox_mode = "workspace-write"\n{tight}')

    def made(*tools: str, **more: Any) -> Any:
        return Options(tools=tools, plugin_files=(plugin,), **more)

    return made


def test_the_definitions(raw, play, options) -> None:
    async def story() -> None:
        async with raw(options("own", "exec_*", agent=False)) as client:
            tools = {tool["name"]: tool for tool in (await client.request("tools/list"))["result"]["tools"]}
        own = {"wait_for", "picture", "shout", "guarded", "patient", "broken", "alone"}
        assert tools.keys() == {*own, "exec_command"}
        assert tools["wait_for"]["inputSchema"]["required"] == ["other", "mine"]
        assert tools["picture"]["annotations"] == {"readOnlyHint": True}
        assert "annotations" not in tools["shout"]
        assert tools["shout"]["inputSchema"]["required"] == ["input"]
        assert "start: /.+/" in tools["shout"]["inputSchema"]["properties"]["input"]["description"]

    play(story())


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ("", {}),
        ("[features]\ncode_mode_only = true\n", {}),
        ("", {"features.code_mode_only": True}),
        ("", {"features": {"code_mode": True}}),
    ],
)
def test_a_model_that_calls_tools_by_scripts_hides_none(home, raw, play, options, more, settings) -> None:
    config = options("own").evolve(agent=False, config=settings)
    file = home.path / "config.toml"
    file.write_text(file.read_text().replace('"gpt-5.5"', '"gpt-6.2-sol"') + more)

    async def story() -> None:
        async with raw(config) as client:
            tools = {tool["name"] for tool in (await client.request("tools/list"))["result"]["tools"]}
            assert "shout" in tools
            assert "exec" not in tools
            result = await client.result(await client.call("shout", input="hey"))
            assert result["content"] == [{"type": "text", "text": "HEY"}]

    play(story())


def test_the_results(raw, play, options) -> None:
    async def story() -> None:
        async with raw(options("own")) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                return await client.result(await client.call(tool, **arguments))

            assert await call("picture") == {
                "content": [
                    {"type": "text", "text": "a pixel"},
                    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
                ],
                "isError": False,
                "_meta": {"codex/details": {"width": 1}},
            }
            assert (await call("shout", input="hey"))["content"] == [{"type": "text", "text": "HEY"}]
            assert (await call("shout", text="hey"))["isError"] is True
            broken = await call("broken")
            assert broken["isError"] is True
            assert "no luck" in broken["content"][0]["text"]
            assert (await call("wait_for", other="x"))["isError"] is True
            unknown = await client.request("tools/call", name="exec_command", arguments={"cmd": "id"})
            assert "Unknown tool: exec_command" in unknown["error"]["message"]

    play(story())


def test_parallel_calls_progress_and_cancellation(home, raw, play, options) -> None:
    async def story() -> None:
        async with raw(options("own")) as client:
            first = await client.start(
                "tools/call",
                name="wait_for",
                arguments={"other": "two", "mine": "one"},
                _meta={"progressToken": "first"},
            )
            await client.until(lambda message: message.get("method") == "notifications/progress")
            stuck = await client.call("wait_for", other="never", mine="three")
            while not (home.work / "three").exists():
                await asyncio.sleep(0.01)
            await client.send(method="notifications/cancelled", params={"requestId": stuck})
            second = await client.call("wait_for", other="one", mine="two")
            found = {}
            while len(found) < 2:
                message = await client.read()
                if "result" in message:
                    found[message["id"]] = message["result"]["content"][0]["text"]
            assert found == {first: "one has seen two", second: "two has seen one"}
            progress = [m["params"] for m in client.seen if m.get("method") == "notifications/progress"]
            assert {"progressToken": "first", "progress": 0.5, "total": 1.0, "message": "waiting"} in progress

    play(story())


@pytest.mark.parametrize(("decision", "text"), [("approved", "done"), ("denied", "rejected"), ("abort", "rejected")])
def test_a_tool_that_needs_an_approval(raw, play, options, decision, text) -> None:
    async def story() -> None:
        async with raw(options("own")) as client:
            number = await client.call("guarded")
            question = await client.question()
            assert question["params"]["codex_elicitation"] == "tool-approval"
            assert question["params"]["codex_tool"] == "guarded"
            await client.send(id=question["id"], result={"decision": decision})
            assert text in (await client.result(number))["content"][0]["text"]

    play(story())


@pytest.mark.parametrize(("answer", "text"), [("false", "False"), ("true", "True"), ("maybe", "True")])
def test_an_answer_that_is_false_is_an_answer(raw, play, options, answer, text) -> None:
    async def story() -> None:
        async with raw(options("patient")) as client:
            number = await client.call("patient")
            question = await client.question()
            await client.send(id=question["id"], result={"action": "accept", "content": {"answer": answer}})
            assert (await client.result(number))["content"][0]["text"] == text

    play(story())


def test_an_answer_to_one_call_does_not_stop_another(home, raw, play, options) -> None:
    async def story() -> None:
        async with raw(options("own")) as client:
            waiting = await client.call("wait_for", other="two", mine="one")
            while not (home.work / "one").exists():
                await asyncio.sleep(0.01)
            number = await client.call("guarded")
            question = await client.question()
            await client.send(id=question["id"], result={"action": "cancel"})
            assert "rejected" in (await client.result(number))["content"][0]["text"]
            (home.work / "two").touch()
            assert (await client.result(waiting))["content"][0]["text"] == "one has seen two"

    play(story())


def test_a_call_that_must_run_alone_does_and_nothing_is_stored(home, raw, play, options) -> None:
    async def story() -> None:
        async with raw(options("own")) as client:
            for name in ("a", "b", "c"):
                await client.call("alone", name=name)
            for _ in range(3):
                await client.until(lambda message: "result" in message)

    play(story())
    assert (home.work / "log").read_text().splitlines() == [
        f"{word} {name}" for name in ("a", "b", "c") for word in ("begin", "end")
    ]
    assert home.rollouts == []


def test_a_client_that_cannot_be_asked_is_refused(raw, play, options) -> None:
    async def story() -> None:
        async with raw(options("own"), capabilities={}) as client:
            result = await client.result(await client.call("guarded"))
            assert result["isError"] is True
            assert "no user can be asked" in result["content"][0]["text"]

    play(story())


def test_commands_run_in_the_sandbox_and_leave_it_with_an_approval_only(home, raw, play, options) -> None:
    outside = home.path.parent / "outside"
    outside.mkdir()

    async def story() -> None:
        async with raw(options("unified_exec")) as client:
            inside = await client.result(await client.call("exec_command", cmd="echo hi > made; cat made"))
            assert "hi" in inside["content"][0]["text"]
            await client.result(await client.call("exec_command", cmd=f"touch {outside}/one"))
            assert not (outside / "one").exists()
            escalated = {
                "cmd": f"touch {outside}/two",
                "sandbox_permissions": "require_escalated",
                "justification": "x",
            }
            for decision, made in (("denied", False), ("approved", True)):
                number = await client.call("exec_command", **escalated)
                question = await client.question()
                assert question["params"]["codex_command"][-1] == f"touch {outside}/two"
                await client.send(id=question["id"], result={"decision": decision})
                await client.result(number)
                assert (outside / "two").exists() is made

    play(story())


def test_a_name_without_a_tool_is_an_error(home, play, options) -> None:
    from codex_framework import ConfigError
    from codex_plugin_mcp_server.serving import serving

    async def story() -> None:
        await serving(options("pictur"), home.env, lambda service: asyncio.sleep(0))

    with pytest.raises(ConfigError, match="no tool is named 'pictur'") as raised:
        play(story())
    assert "Did you mean picture?" in raised.value.hint
