"""Turns among plugins that break their contracts: each ends, and says why."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FunctionSpec, ThreadError, ToolCall, ToolContext
from codex_framework.contract.protocol.events import ShutdownCompleteEvent, TurnStartedEvent
from codex_framework.contract.protocol.items import is_output
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing.replies import call, say
from codex_framework.threads.turn import call_context

ANY = {"type": "object", "properties": {}}


class FakeTool:
    def __init__(self, name: str, work: Any) -> None:
        self.spec = FunctionSpec(name, f"Does {name}.", ANY)
        self._work = work

    async def run(self, tool_call: ToolCall, context: ToolContext) -> Any:
        return await self._work(tool_call, context)


class Idle:
    """An interceptor that changes nothing."""

    name = "idle"
    order = 0

    async def request(self, request: Any) -> Any:
        return request

    async def before_tool(self, tool_call: Any) -> Any:
        return tool_call

    async def after_tool(self, tool_call: Any, output: Any) -> Any:
        return output


def driver_of(thread: Any) -> Any:
    """What performs the commands of the running turn."""
    return thread._tasks._active.run.driver


def outputs(thread: Any) -> list[Any]:
    return [item.output for item in thread.history.items if is_output(item)]


def giving(value: Any) -> FakeTool:
    async def work(_: ToolCall, __: ToolContext) -> Any:
        return value

    return FakeTool("t", work)


def play(main: Any) -> None:
    """Run it; a turn that hangs is a failure."""

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await main()

    asyncio.run(bounded())


@pytest.mark.parametrize(("value", "kind"), [(None, "None"), (5, "int"), ({"a": 1}, "dict")])
def test_a_tool_that_returns_no_output_is_the_models_news(make_thread: Any, value: Any, kind: str) -> None:
    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[giving(value)]) as thread:
            assert (await thread.run("go")).final_message == "done"
            assert outputs(thread) == [f"t failed: it returned {kind}, not text or a ToolOutput"]

    play(main)


@pytest.mark.parametrize("step", ["before_tool", "after_tool"])
def test_an_interceptor_that_returns_nothing_does_not_hang_the_turn(make_thread: Any, step: str) -> None:
    async def nothing(*_: Any) -> None:
        return None

    broken = Idle()
    setattr(broken, step, nothing)

    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[giving("ok")], interceptors=[broken]) as thread:
            assert (await thread.run("go")).final_message == "done"
            assert "interceptor 'idle' failed: it returned None instead of" in outputs(thread)[0]

    play(main)


def test_an_interrupt_before_a_calls_first_step_ends_the_turn_at_once(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[giving("ok")]) as thread:
            turn = asyncio.ensure_future(thread.run("go"))
            while not thread.running or not driver_of(thread)._calls:  # the very moment the call's task exists
                await asyncio.sleep(0)
                if turn.done():
                    break
            await thread.interrupt()
            assert (await turn).status in (Status.INTERRUPTED, Status.COMPLETED)
            assert len(outputs(thread)) == 1

    play(main)


def test_a_call_cancelled_before_it_began_is_answered(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[giving("ok")]) as thread:
            async with asyncio.timeout(3):
                async for event in thread.stream("go"):
                    if isinstance(event, TurnStartedEvent):
                        driver = driver_of(thread)
                        perform = driver._perform

                        def at_once(command: Any, driver: Any = driver, perform: Any = perform) -> None:
                            perform(command)
                            if type(command).__name__ == "RunTool":
                                driver._cancel_call(command.key)

                        driver._perform = at_once
            assert outputs(thread)[0].startswith("aborted by user")

    play(main)


def test_a_fault_while_recording_ends_the_turn_with_an_error_and_the_next_one_works(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("one"), say("two")]) as thread:
            append = thread.history.append

            def broken(item: Any) -> bytes:
                if getattr(item, "role", "") == "assistant":
                    raise RuntimeError("no more room")
                return append(item)

            thread.history.append = broken
            result = await thread.run("go")
            assert (result.status, result.error) == (Status.FAILED, "the turn failed: RuntimeError: no more room")
            thread.history.append = append
            assert (await thread.run("again")).final_message == "two"

    play(main)


def test_nothing_starts_after_the_end_and_the_end_comes_once(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([say("one")]) as thread:
            seen = thread.events()
            await asyncio.gather(thread.shutdown(), thread.shutdown())
            assert [type(event.msg) for event in [e async for e in seen]].count(ShutdownCompleteEvent) == 1
            with pytest.raises(ThreadError, match="shut down"):
                await thread.run("go")
            assert [event async for event in thread.events()], "listening to a closed thread ends"
            seen.close()
            seen.close()

    play(main)


def test_a_tool_whose_choice_fails_is_not_offered(make_thread: Any) -> None:
    tool = giving("ok")

    def offered(_: Any) -> bool:
        raise RuntimeError("cannot tell")

    tool.offered = offered  # type: ignore[attr-defined]

    async def main() -> None:
        async with make_thread([say("one")], tools=[tool]) as thread:
            result = await thread.run("go")
            assert result.final_message == "one"
            (warning,) = [event.message for event in result.events if "cannot tell" in str(event)]
            assert "offered() failed: RuntimeError: cannot tell (" in warning
            assert "). The tool is not offered. " in warning

    play(main)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a\0b", r"'{}/a\x00b': the path contains a NUL character"),
        ("a\ud800b", r"'{}/a\ud800b': the path contains half of a character"),
        ("x" * 300, f"{{}}/{'x' * 300}: File name too long (os error 36)"),
    ],
)
def test_a_text_that_is_no_path_is_told_to_the_model(make_thread: Any, tmp_path: Path, path: str, why: str) -> None:
    async def read(_: ToolCall, context: ToolContext) -> str:
        return await context.read_text(f"{tmp_path}/{path}")

    async def write(_: ToolCall, context: ToolContext) -> str:
        await context.write_text(f"{tmp_path}/{path}", "x")
        return "written"

    async def main() -> None:
        tools = [FakeTool("r", read), FakeTool("w", write)]
        async with make_thread([call("r"), call("w"), say("done")], tools=tools) as thread:
            await thread.run("go")
            text = why.format(tmp_path)
            assert outputs(thread) == [f"unable to read {text}", f"unable to write {text}"]

    play(main)


def test_a_huge_file_is_not_read(make_thread: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_context, "_LARGEST", 1 << 20)  # so that the test is quick
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 42)

    async def work(_: ToolCall, context: ToolContext) -> str:
        return await context.read_text(str(huge))

    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[FakeTool("t", work)]) as thread:
            await thread.run("go")
            why = "it has more than 1 MiB; read it in parts with a command"
            assert outputs(thread) == [f"unable to read {huge}: {why}"]

    play(main)


def test_a_named_pipe_is_not_read(make_thread: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def work(_: ToolCall, context: ToolContext) -> str:
        return await context.read_text(str(pipe))

    async def main() -> None:
        async with make_thread([call("t"), say("done")], tools=[FakeTool("t", work)]) as thread:
            await thread.run("go")
            assert outputs(thread) == [f"unable to read {pipe}: it is not a regular file"]

    play(main)
