from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.errors import ToolError, ToolRefused
from codex_framework.contract.protocol.events.command import (
    ExecCommandBeginEvent,
    ExecCommandEndEvent,
    ExecCommandOutputDeltaEvent,
)
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.policies import CommandVerdict, Verdict
from codex_framework.testing import call, say, turn_facts
from codex_plugin_unified_exec import codex_tools
from codex_plugin_unified_exec.exec_command import ExecCommand
from codex_plugin_unified_exec.sessions import MOST, sessions_of

EXEC, WRITE = codex_tools()

HEADER = re.compile(r"Chunk ID: [0-9a-f]{6}\nWall time: (\d+\.\d{4}) seconds\n")


def body(text: str) -> str:
    """The report without its random and timed first lines."""
    match = HEADER.match(text)
    assert match, text
    return text[match.end() :]


def session_id(text: str) -> int:
    found = re.search(r"^Process running with session ID (\d+)$", text, re.MULTILINE)
    assert found, text
    return int(found[1])


def ends(pid: int) -> bool:
    """Whether a process that was sent SIGKILL is gone (or waits for a parent that does not look)."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.01)
    return False


def exec_once(open_thread: Any, arguments: object, **options: Any) -> str:
    async def main() -> str:
        async with open_thread(**options) as thread:
            return str(await thread.call(EXEC, arguments if isinstance(arguments, str) else json.dumps(arguments)))

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cmd": "true"}, "Process exited with code 0\nOriginal token count: 0\nOutput:\n"),
        ({"cmd": ""}, "Process exited with code 0\nOriginal token count: 0\nOutput:\n"),
        ({"cmd": "echo hi"}, "Process exited with code 0\nOriginal token count: 1\nOutput:\nhi\n"),
        ({"cmd": "echo hi", "login": False}, "Process exited with code 0\nOriginal token count: 1\nOutput:\nhi\n"),
        ({"cmd": "printf 'no newline'"}, "Process exited with code 0\nOriginal token count: 3\nOutput:\nno newline"),
        ({"cmd": "echo oops >&2; exit 3"}, "Process exited with code 3\nOriginal token count: 2\nOutput:\noops\n"),
        ({"cmd": "kill -9 $$"}, "Process exited with code 137\nOriginal token count: 0\nOutput:\n"),
        ({"cmd": "kill -TERM $$"}, "Process exited with code 143\nOriginal token count: 0\nOutput:\n"),
        ({"cmd": "pwd", "workdir": "/"}, "Process exited with code 0\nOriginal token count: 1\nOutput:\n/\n"),
        (
            {"cmd": "echo x", "shell": "/no/such/shell"},
            "Process exited with code 0\nOriginal token count: 1\nOutput:\nx\n",
        ),
        ({"cmd": "echo extra", "bogus": 1}, "Process exited with code 0\nOriginal token count: 2\nOutput:\nextra\n"),
        (
            {"cmd": "printf '\\377\\376bad\\000utf8 é\\n'"},
            "Process exited with code 0\nOriginal token count: 4\nOutput:\n\ufffd\ufffdbad\0utf8 é\n",
        ),
        (
            {"cmd": "test -t 0 || echo stdin-not-tty; cat"},
            "Process exited with code 0\nOriginal token count: 4\nOutput:\nstdin-not-tty\n",
        ),
        ({"cmd": "sleep 1 & echo bg"}, "Process exited with code 0\nOriginal token count: 1\nOutput:\nbg\n"),
        (
            {"cmd": "seq 1 100", "max_output_tokens": 20},
            (
                "Process exited with code 0\nOriginal token count: 73\nOutput:\n"
                "Warning: truncated output (original token count: 73)\nTotal output lines: 100\n\n"
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n1…53 tokens truncated…"
                "88\n89\n90\n91\n92\n93\n94\n95\n96\n97\n98\n99\n100\n"
            ),
        ),
        (
            {"cmd": "seq -f 'line %07.0f' 1 80000", "max_output_tokens": 0},
            (
                "Process exited with code 0\nOriginal token count: 260000\nOutput:\n"
                "Warning: truncated output (original token count: 260000)\nTotal output lines: 80000\n\n"
                "…260000 tokens truncated…"
            ),
        ),
    ],
)
def test_a_command_that_ends_is_reported_as_codex_does(
    open_thread: Any, arguments: dict[str, Any], expected: str
) -> None:
    assert body(exec_once(open_thread, arguments)) == expected


def test_a_relative_workdir_is_taken_from_the_turns_folder(open_thread: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert body(exec_once(open_thread, {"cmd": "pwd", "workdir": "sub"})).endswith(f"Output:\n{tmp_path}/sub\n")


def test_a_command_on_a_terminal_sees_24_by_80_and_carriage_returns(open_thread: Any) -> None:
    text = body(exec_once(open_thread, {"cmd": "test -t 1 && echo isatty; stty size; tty < /dev/tty", "tty": True}))
    assert re.fullmatch(
        r"Process exited with code 0\nOriginal token count: \d+\nOutput:\nisatty\r\n24 80\r\n/dev/\S+\r\n", text
    )


@pytest.mark.parametrize("size", [39_990, 40_000])
def test_output_up_to_ten_thousand_tokens_stays_whole(open_thread: Any, size: int) -> None:
    text = body(exec_once(open_thread, {"cmd": f"head -c {size} /dev/zero | tr '\\0' x"}))
    assert text == f"Process exited with code 0\nOriginal token count: {-(-size // 4)}\nOutput:\n{'x' * size}"


def test_output_over_ten_thousand_tokens_loses_its_middle(open_thread: Any) -> None:
    text = body(exec_once(open_thread, {"cmd": "head -c 40010 /dev/zero | tr '\\0' x", "max_output_tokens": 50_000}))
    assert text == (
        "Process exited with code 0\nOriginal token count: 10003\nOutput:\n"
        "Warning: truncated output (original token count: 10003)\nTotal output lines: 1\n\n"
        f"{'x' * 20_000}…3 tokens truncated…{'x' * 20_000}"
    )


def test_output_over_a_mebibyte_says_how_many_bytes_were_never_kept(open_thread: Any) -> None:
    text = body(exec_once(open_thread, {"cmd": "head -c 10101010 /dev/zero | tr '\\0' x"}))
    assert text == (
        "Process exited with code 0\nOriginal token count: 2525253\nOutput:\n"
        "Warning: truncated output (original token count: 2525253)\n... 9052434 bytes omitted ...\n\n"
        f"{'x' * 20_000}…252152 tokens truncated…{'x' * 20_000}"
    )


def test_clients_see_how_many_bytes_were_never_kept(open_thread: Any) -> None:
    async def main() -> ExecCommandEndEvent:
        async with open_thread() as thread:
            await thread.call(EXEC, json.dumps({"cmd": "head -c 3000000 /dev/zero | tr '\\0' x"}))
            return next(event for event in thread.events if isinstance(event, ExecCommandEndEvent))

    half = "x" * (1 << 19)
    assert asyncio.run(main()).aggregated_output == f"{half}\n... 1951424 bytes omitted ...\n{half}"


class Refused:
    """A policy that forbids everything."""

    name = "refused"

    def judge(self, request: Any, facts: Any) -> CommandVerdict:
        return CommandVerdict(verdict=Verdict.FORBID, reason="not here")


@pytest.mark.parametrize(
    ("arguments", "policies", "status", "reason"),
    [
        ({"cmd": "pwd", "workdir": "no/such"}, (), "failed", "execution error: No such file or directory (os error 2)"),
        (
            {"cmd": "pwd", "workdir": "no/such", "tty": True},
            (),
            "failed",
            "execution error: No such file or directory (os error 2)",
        ),
        ({"cmd": "pwd", "workdir": "/etc/passwd"}, (), "failed", "execution error: Not a directory (os error 20)"),
        ({"cmd": "a" * 3_000_000}, (), "failed", "execution error: Argument list too long (os error 7)"),
        ({"cmd": "pwd"}, (Refused(),), "declined", "not here"),
    ],
)
def test_a_command_that_cannot_be_started_has_a_begin_and_an_end_for_clients(
    open_thread: Any, arguments: dict[str, Any], policies: Any, status: str, reason: str
) -> None:
    async def main() -> list[Any]:
        async with open_thread(policies=policies) as thread:
            with pytest.raises(ToolError):
                await thread.call(EXEC, json.dumps(arguments))
            return [event for event in thread.events if isinstance(event, ExecCommandBeginEvent | ExecCommandEndEvent)]

    begin, end = asyncio.run(main())
    assert (type(begin), type(end)) == (ExecCommandBeginEvent, ExecCommandEndEvent)
    assert (end.call_id, end.command, end.cwd) == (begin.call_id, begin.command, begin.cwd)
    assert (end.exit_code, end.status, end.aggregated_output) == (-1, status, reason)


def test_a_models_limit_in_bytes_holds_too(open_thread: Any) -> None:
    model = ModelInfo(slug="test", truncation=("bytes", 100))
    text = body(exec_once(open_thread, {"cmd": "head -c 200 /dev/zero | tr '\\0' x"}, model=model))
    assert text.endswith(f"Total output lines: 1\n\n{'x' * 50}…25 tokens truncated…{'x' * 50}")


def test_commands_get_a_plain_environment(open_thread: Any) -> None:
    names = "NO_COLOR TERM LANG LC_CTYPE LC_ALL COLORTERM PAGER GIT_PAGER GH_PAGER CODEX_CI"
    script = f'for name in {names}; do printenv "$name" || echo unset; done'
    text = body(exec_once(open_thread, {"cmd": script, "login": False}))
    values = ["1", "dumb", "C.UTF-8", "C.UTF-8", "C.UTF-8", "", "cat", "cat", "cat", "1"]
    assert text.split("Output:\n", 1)[1] == "".join(f"{value}\n" for value in values)


def test_commands_see_codexs_version_and_that_patches_keep_line_endings(run_turn: Any) -> None:
    script = "echo $CODEX_VERSION $CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS"
    turn = run_turn("hello", [call("exec_command", cmd=script, login=False), say("Done.")])
    assert turn.outputs[0].endswith("Output:\n0.171.0 1\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("{not json", "key must be a string at line 1 column 2"),
        ("{}", "missing field `cmd` at line 1 column 2"),
        ('{"cmd": 5}', "invalid type: integer `5`, expected a string at line 1 column 9"),
        ("", "EOF while parsing a value at line 1 column 0"),
        ('{"cmd": "echo y", "yield_time_ms": "100"}', 'invalid type: string "100", expected u64 at line 1 column 40'),
        ('{"cmd": "echo neg", "yield_time_ms": -5}', "invalid value: integer `-5`, expected u64 at line 1 column 39"),
    ],
)
def test_arguments_that_do_not_fit_come_back_as_codex_words_them(
    open_thread: Any, arguments: str, expected: str
) -> None:
    with pytest.raises(ToolError) as caught:
        exec_once(open_thread, arguments)
    assert caught.value.fact == f"failed to parse function arguments: {expected}"


def test_a_missing_folder_is_told_in_codexs_form(open_thread: Any) -> None:
    with pytest.raises(ToolError) as caught:
        exec_once(open_thread, {"cmd": "pwd", "workdir": "does/not/exist"})
    assert caught.value.fact == (
        'exec_command failed: CreateProcess { message: "Rejected(\\"Failed to create unified exec process: '
        'No such file or directory (os error 2)\\")" }'
    )


class NoSemicolons:
    name = "no-semicolons"

    def judge(self, command: Any, facts: Any) -> CommandVerdict | None:
        if ";" in (command.script or ""):
            return CommandVerdict(verdict=Verdict.FORBID, reason=f'`{command.argv[-1]}` rejected: no "semicolons"')
        return None


def test_a_command_that_policy_forbids_is_told_in_codexs_form(open_thread: Any) -> None:
    with pytest.raises(ToolRefused) as caught:
        exec_once(open_thread, {"cmd": "echo a; echo b"}, policies=(NoSemicolons(),))
    assert caught.value.fact == (
        'exec_command failed: CreateProcess { message: "Rejected(\\"`echo a; echo b` rejected: no \\\\\\"semicolons\\\\\\"\\")" }'
    )


def test_asking_for_more_rights_under_policy_never_is_refused_in_plain_words(open_thread: Any) -> None:
    with pytest.raises(ToolRefused, match=r"^approval policy is Never; reject command"):
        exec_once(open_thread, {"cmd": "echo esc", "sandbox_permissions": "require_escalated", "justification": "why"})


def test_login_shells_can_be_switched_off(open_thread: Any) -> None:
    config = {"allow_login_shell": False}
    with pytest.raises(ToolError, match="login shells are switched off"):
        exec_once(open_thread, {"cmd": "true", "login": True}, config=config)
    text = exec_once(open_thread, {"cmd": "shopt -q login_shell || echo plain", "shell": "bash"}, config=config)
    assert text.endswith("Output:\nplain\n")


def test_a_command_that_takes_longer_becomes_a_session_and_ends_with_the_thread(open_thread: Any) -> None:
    async def main() -> int:
        async with open_thread() as thread:
            text = await thread.call(EXEC, '{"cmd": "echo $$; exec sleep 60", "yield_time_ms": 1}')
            number = session_id(text)
            assert 1000 <= number <= 99_999
            header = HEADER.match(text)
            assert header
            assert float(header[1]) >= 0.25
            assert body(text).startswith(f"Process running with session ID {number}\nOriginal token count: ")
            return int(text.split("Output:\n")[1])

    assert ends(asyncio.run(main()))


def test_an_interrupted_call_leaves_no_process_behind(open_thread: Any) -> None:
    async def main() -> int:
        async with open_thread() as thread:
            call = asyncio.create_task(thread.call(EXEC, '{"cmd": "trap \\"\\" TERM; echo ready; sleep 60"}'))
            while not any(isinstance(event, ExecCommandOutputDeltaEvent) for event in thread.events):
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert len(sessions_of(thread.context)) == 0
            begin = next(event for event in thread.events if isinstance(event, ExecCommandBeginEvent))
            assert begin.source == "unified_exec_startup"
            end = next(event for event in thread.events if isinstance(event, ExecCommandEndEvent))
            assert end.exit_code == 137
            return int(begin.process_id or "0")

    assert ends(asyncio.run(main()))


def test_commands_of_one_turn_overlap(open_thread: Any) -> None:
    async def main() -> float:
        async with open_thread() as thread:
            begun = time.monotonic()
            calls = (thread.call(EXEC, '{"cmd": "sleep 0.5", "login": false}') for _ in range(8))
            await asyncio.gather(*calls)
            return time.monotonic() - begun

    assert ExecCommand.parallel_safe
    assert asyncio.run(main()) < 8 * 0.5


def test_the_least_useful_session_makes_room(open_thread: Any) -> None:
    async def main() -> None:
        async with open_thread() as thread:
            sessions = sessions_of(thread.context)
            kept = []
            for number in range(MOST):
                script = "exit 0" if number == 3 else "sleep 60"
                start = f'{{"cmd": "{script}", "login": false, "shell": "sh"}}'
                running = await thread.context.start(_request(start, thread.context))
                kept.append(await sessions.keep(running, tty=False, call_id=f"call-{number}"))
            await kept[3].running.wait()
            sessions.use(kept[0].id)
            more = [await thread.context.start(_request('{"cmd": "sleep 60"}', thread.context)) for _ in range(2)]
            for running in more:
                await sessions.keep(running, tty=False, call_id="more")
            assert len(sessions) == MOST
            gone = [number for number, session in enumerate(kept) if session.id not in sessions._by_id]
            assert gone == [1, 3]  # the one that had ended, then the one used longest ago
            assert kept[1].running.exit_code is not None

    asyncio.run(main())


def _request(arguments: str, context: Any) -> Any:
    from codex_plugin_unified_exec.exec_command import _request as request

    return request(json.loads(arguments), context)


@pytest.mark.parametrize(
    ("shell_type", "features", "offered"),
    [
        ("unified_exec", {}, True),
        ("unified_exec", {"unified_exec": False}, False),
        ("unified_exec", {"shell_tool": False}, False),
        ("shell_command", {}, False),
        ("shell_command", {"unified_exec": True}, True),
        ("disabled", {"unified_exec": True}, False),
    ],
)
def test_both_tools_are_offered_when_model_and_configuration_say_so(
    shell_type: str, features: dict[str, bool], offered: bool
) -> None:
    facts = turn_facts(model=ModelInfo(slug="test", shell_type=shell_type), config={"features": features})
    assert [tool.offered(facts) for tool in (EXEC, WRITE)] == [offered, offered]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("login", "features", "expected"),
    [
        (True, {}, "yes\nplain\n"),
        (True, {"shell_snapshot": False}, "yes\nlogin\n"),
        (False, {}, "no\nplain\n"),
    ],
)
def test_login_scripts_see_the_profile_which_is_read_once(
    open_thread: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: bool,
    features: dict[str, bool],
    expected: str,
) -> None:
    (tmp_path / ".bash_profile").write_text('echo noise\nexport FROM_PROFILE=yes\necho read >> "$HOME/log"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    script = "echo ${FROM_PROFILE:-no}; shopt -q login_shell && echo login || echo plain"
    arguments = json.dumps({"cmd": script, "shell": "bash", "login": login})

    async def main() -> list[str]:
        async with open_thread(config={"features": features}) as thread:
            return [(await thread.call(EXEC, arguments)).split("Output:\n")[1] for _ in range(2)]

    noise = "noise\n" if "login\n" in expected else ""
    assert asyncio.run(main()) == [noise + expected] * 2
    reads = (tmp_path / "log").read_text().count("read") if (tmp_path / "log").exists() else 0
    assert reads == (0 if not login else 2 if noise else 1)


def test_it_does_not_run_where_command_tools_are_switched_off(open_thread: Any, tmp_path: Path) -> None:
    with pytest.raises(ToolRefused, match="switched off in the configuration"):
        exec_once(open_thread, {"cmd": "touch made"}, config={"features": {"shell_tool": False}})
    assert not (tmp_path / "made").exists()
