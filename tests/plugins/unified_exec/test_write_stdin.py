from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events.command import TerminalInteractionEvent
from codex_plugin_unified_exec import codex_tools
from codex_plugin_unified_exec.sessions import sessions_of

EXEC, WRITE = codex_tools()

PATIENT = {"yield_time_ms": 30_000}
"""The call returns as soon as the command ends. By default it returns after 250 ms, when a busy machine may not have ended it yet."""


def outcome(text: str) -> tuple[str, str]:
    """The line about the process, and the output."""
    match = re.fullmatch(
        r"Chunk ID: [0-9a-f]{6}\nWall time: \d+\.\d{4} seconds\n"
        r"Process (exited with code \d+|running with session ID \d+)\nOriginal token count: \d+\nOutput:\n(.*)",
        text,
        re.DOTALL,
    )
    assert match, text
    return re.sub(r" with session ID \d+", "", match[1]), match[2]


async def start(thread: Any, script: str, **arguments: Any) -> int:
    text = await thread.call(
        EXEC,
        json.dumps({"cmd": script, "yield_time_ms": 250, "login": False, "shell": "sh", **arguments}),
        call_id="first",
    )
    found = re.search(r"session ID (\d+)", text)
    assert found, text
    return int(found[1])


def test_a_session_on_a_terminal_can_be_typed_into(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "read a; echo got:$a; read b; exit 4", tty=True)
            first = await thread.call(WRITE, json.dumps({"session_id": number, "chars": "abc\n"}))
            assert outcome(first) == ("running", "abc\r\ngot:abc\r\n")
            second = await thread.call(WRITE, json.dumps({"session_id": number, "chars": "\n"}))
            assert outcome(second) == ("exited with code 4", "\r\n")
            assert len(sessions_of(thread.context)) == 0
            assert [event for event in thread.events if isinstance(event, TerminalInteractionEvent)] == [
                TerminalInteractionEvent(call_id="first", process_id=str(number), stdin="abc\n"),
                TerminalInteractionEvent(call_id="first", process_id=str(number), stdin="\n"),
            ]

    asyncio.run(main())


def test_a_poll_ends_when_the_command_does_and_gives_only_what_is_new(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "echo old; sleep 0.8; echo fin; exit 4")
            text = await thread.call(WRITE, json.dumps({"session_id": number}))
            assert outcome(text) == ("exited with code 4", "fin\n")
            with pytest.raises(ToolError) as caught:
                await thread.call(WRITE, json.dumps({"session_id": number}))
            assert caught.value.fact == f"write_stdin failed: Unknown process id {number}"

    asyncio.run(main())


def test_a_session_that_ended_meanwhile_is_reported_even_when_something_is_typed(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "sleep 0.4; echo fin", tty=True)
            await sessions_of(thread.context).use(number).running.wait()
            text = await thread.call(WRITE, json.dumps({"session_id": number, "chars": "late\n"}))
            assert outcome(text) == ("exited with code 0", "fin\r\n")

    asyncio.run(main())


def test_a_session_without_a_terminal_has_no_stdin_but_can_be_interrupted(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "sleep 60")
            with pytest.raises(ToolError) as caught:
                await thread.call(WRITE, json.dumps({"session_id": number, "chars": "x"}))
            assert caught.value.fact == (
                "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
            )
            text = await thread.call(WRITE, json.dumps({"session_id": number, "chars": "\x03", **PATIENT}))
            assert outcome(text) == ("exited with code 130", "")

    asyncio.run(main())


def test_ctrl_c_on_a_terminal_interrupts(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "exec sleep 60", tty=True)
            text = await thread.call(WRITE, json.dumps({"session_id": number, "chars": "\x03", **PATIENT}))
            assert outcome(text) == ("exited with code 130", "^C")

    asyncio.run(main())


def test_a_program_that_does_not_read_does_not_hold_the_call_up(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "stty raw -echo; sleep 60", tty=True)
            with pytest.raises(ToolError, match="does not read its input"):
                await thread.call(WRITE, json.dumps({"session_id": number, "chars": "x" * 1_000_000}))

    asyncio.run(main())


def test_an_interrupted_poll_leaves_the_session_as_it_was(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            number = await start(thread, "sleep 60")
            session = sessions_of(thread.context).use(number)
            poll = asyncio.create_task(thread.call(WRITE, json.dumps({"session_id": number})))
            await asyncio.sleep(0.05)
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll
            assert session.running.exit_code is None
            text = await thread.call(WRITE, json.dumps({"session_id": number, "chars": "\x03", **PATIENT}))
            assert outcome(text) == ("exited with code 130", "")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"session_id": 4242, "chars": "x"}', "write_stdin failed: Unknown process id 4242"),
        (
            '{"session_id": ""}',
            'failed to parse function arguments: invalid type: string "", expected i32 at line 1 column 17',
        ),
        (
            '{"session_id": "", "chars": "abc\\n"}',
            'failed to parse function arguments: invalid type: string "", expected i32 at line 1 column 17',
        ),
    ],
)
def test_wrong_calls_are_told_as_codex_does(open_thread: Any, arguments: str, expected: str) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            await thread.call(WRITE, arguments)

    with pytest.raises(ToolError) as caught:
        asyncio.run(main())
    assert caught.value.fact == expected
