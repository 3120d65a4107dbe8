from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.errors import ToolError, ToolRefused
from codex_framework.contract.protocol.events import ExecCommandBeginEvent
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tool_specs import NativeSpec
from codex_framework.testing import turn_facts
from codex_plugin_shell import codex_tools

SHELL, SHELL_COMMAND, LOCAL_SHELL = codex_tools()


def call(open_thread: Any, tool: Any, arguments: object, *, kind: str = "function", **options: Any) -> str:
    async def main() -> str:
        async with open_thread(**options) as thread:
            return str(await thread.call(tool, json.dumps(arguments), kind=kind))

    return asyncio.run(main())


def as_json(text: str) -> tuple[str, int]:
    report = json.loads(text)
    assert list(report) == ["output", "metadata"]
    assert list(report["metadata"]) == ["exit_code", "duration_seconds"]
    return report["output"], report["metadata"]["exit_code"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": ["echo", "$HOME é"]}, ("$HOME é\n", 0)),
        ({"command": ["bash", "-lc", "echo out; echo err >&2; exit 3"]}, ("out\nerr\n", 3)),
        ({"command": ["sh", "-c", "kill -9 $$"]}, ("", 137)),
        ({"command": ["pwd"], "workdir": "/"}, ("/\n", 0)),
        ({"command": ["cat"]}, ("", 0)),
        ({"command": ["sleep", "30"], "timeout_ms": 60}, ("command timed out after 60 milliseconds\n", 124)),
        ({"command": ["sleep", "30"], "timeout": 60}, ("command timed out after 60 milliseconds\n", 124)),
    ],
)
def test_shell_reports_as_json(open_thread: Any, arguments: dict[str, Any], expected: tuple[str, int]) -> None:
    assert as_json(call(open_thread, SHELL, arguments)) == expected


def test_the_json_is_compact_and_readable(open_thread: Any) -> None:
    text = call(open_thread, SHELL, {"command": ["echo", "é"]})
    assert re.fullmatch(r'\{"output":"é\\n","metadata":\{"exit_code":0,"duration_seconds":\d\.\d\}\}', text)


def test_local_shell_understands_its_action(open_thread: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    action = {
        "type": "exec",
        "command": ["sh", "-c", "pwd; echo $GREETING"],
        "working_directory": "sub",
        "timeout_ms": 5000,
        "env": {"GREETING": "hello"},
        "user": None,
    }
    assert as_json(call(open_thread, LOCAL_SHELL, action, kind="local_shell")) == (f"{tmp_path}/sub\nhello\n", 0)


def test_local_shell_called_as_a_function_takes_the_arguments_of_shell(open_thread: Any) -> None:
    assert as_json(call(open_thread, LOCAL_SHELL, {"command": ["pwd"], "workdir": "/"})) == ("/\n", 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "echo hi"}, r"Exit code: 0\nWall time: [\d.]+ seconds\nOutput:\nhi\n"),
        (
            {"command": "echo oops >&2; exit 3", "login": False},
            r"Exit code: 3\nWall time: [\d.]+ seconds\nOutput:\noops\n",
        ),
        (
            {"command": "echo a; sleep 30", "timeout_ms": 500, "login": False},
            r"Exit code: 124\nWall time: [\d.]+ seconds\nOutput:\ncommand timed out after 500 milliseconds\na\n",
        ),
        (
            {"command": "seq -f 'line %07.0f' 1 80000"},
            (
                r"Exit code: 0\nWall time: [\d.]+ seconds\nTotal output lines: 80000\nOutput:\n"
                r"line 0000001\n(?s:.*)…250000 tokens truncated…(?s:.*)line 0080000\n"
            ),
        ),
        (
            {"command": "head -c 2000000 /dev/zero | tr '\\0' x"},
            (
                r"Exit code: 0\nWall time: [\d.]+ seconds\n\.\.\. 951424 bytes omitted \.\.\.\nOutput:\n"
                r"x{20000}…252152 tokens truncated…x{20000}"
            ),
        ),
    ],
)
def test_shell_command_reports_as_text(open_thread: Any, arguments: dict[str, Any], expected: str) -> None:
    text = call(open_thread, SHELL_COMMAND, arguments)
    assert re.fullmatch(expected, text), text[:300]


def test_long_output_is_shortened_within_the_json(open_thread: Any) -> None:
    model = ModelInfo(slug="test", truncation=("bytes", 20))
    output, _ = as_json(call(open_thread, SHELL, {"command": ["seq", "1", "30"]}, model=model))
    assert output == "Total output lines: 30\n\n1\n2\n3\n4\n5\n…61 chars truncated…\n28\n29\n30\n"


@pytest.mark.parametrize(
    ("tool", "arguments", "fact"),
    [
        (SHELL, {"command": ["no-such-program-xyz"]}, "execution error: No such file or directory (os error 2)"),
        (SHELL, {"command": ["pwd"], "workdir": "no/such"}, "execution error: No such file or directory (os error 2)"),
        (SHELL, {"command": ["/etc/passwd"]}, "execution error: Permission denied (os error 13)"),
        (SHELL, {"command": []}, "command must name a program: it is an empty list"),
        (
            SHELL,
            {"command": "ls"},
            'failed to parse function arguments: invalid type: string "ls", expected a sequence at line 1 column 16',
        ),
        (SHELL_COMMAND, {}, "failed to parse function arguments: missing field `command` at line 1 column 2"),
        (
            SHELL_COMMAND,
            {"command": "a", "sandbox_permissions": "all"},
            (
                "failed to parse function arguments: unknown variant `all`, expected one of `use_default`, "
                "`require_escalated`, `with_additional_permissions` at line 1 column 45"
            ),
        ),
    ],
)
def test_wrong_calls_are_told(open_thread: Any, tool: Any, arguments: dict[str, Any], fact: str) -> None:
    with pytest.raises(ToolError) as caught:
        call(open_thread, tool, arguments)
    assert caught.value.fact == fact


@pytest.mark.parametrize("wish", [{"with_escalated_permissions": True}, {"sandbox_permissions": "require_escalated"}])
def test_both_ways_to_ask_for_more_rights_reach_the_approval_policy(open_thread: Any, wish: dict[str, Any]) -> None:
    with pytest.raises(ToolRefused, match=r"^approval policy is Never; reject command"):
        call(open_thread, SHELL, {"command": ["true"], **wish})


def test_login_shells_can_be_switched_off(open_thread: Any) -> None:
    with pytest.raises(ToolError, match="login shells are switched off"):
        call(open_thread, SHELL_COMMAND, {"command": "true", "login": True}, config={"allow_login_shell": False})


def test_policies_see_the_script_of_a_shell_call(open_thread: Any) -> None:
    seen: list[str | None] = []

    class Remember:
        name = "remember"

        def judge(self, command: Any, facts: Any) -> None:
            seen.append(command.script)

    for tool, arguments in (
        (SHELL, {"command": ["/bin/bash", "-lc", "true"]}),
        (SHELL, {"command": ["echo", "-c", "true"]}),
        (SHELL_COMMAND, {"command": "true # text"}),
    ):
        call(open_thread, tool, arguments, policies=(Remember(),))
    assert seen == ["true", None, "true # text"]


@pytest.mark.parametrize(
    ("shell_type", "features", "offered"),
    [
        ("shell", {}, ["shell"]),
        ("local", {}, ["local_shell"]),
        ("shell_command", {}, ["shell_command"]),
        ("shell_command", {"unified_exec": True}, []),
        ("shell_command", {"shell_tool": False}, []),
        ("unified_exec", {}, []),
        ("unified_exec", {"unified_exec": False}, ["shell_command"]),
        ("disabled", {"unified_exec": False}, []),
    ],
)
def test_at_most_one_of_them_is_offered(shell_type: str, features: dict[str, bool], offered: list[str]) -> None:
    facts = turn_facts(model=ModelInfo(slug="test", shell_type=shell_type), config={"features": features})
    tools: list[Any] = [SHELL, SHELL_COMMAND, LOCAL_SHELL]
    assert [tool.spec.name for tool in tools if tool.offered(facts)] == offered


@pytest.mark.parametrize("selected", ["shell", "shell_command", "local_shell"])
@pytest.mark.parametrize("shell_type", ["unified_exec", "local", "disabled"])
def test_the_configuration_selects_a_tool_whatever_the_model_is(selected: str, shell_type: str) -> None:
    config: dict[str, Any] = {"framework": {"plugins": {"shell": {"offer": selected}}}}
    facts = turn_facts(model=ModelInfo(slug="test", shell_type=shell_type), config=config)
    tools: list[Any] = [SHELL, SHELL_COMMAND, LOCAL_SHELL]
    assert [tool.spec.name for tool in tools if tool.offered(facts)] == [selected]
    without = facts.evolve(config={**config, "features": {"shell_tool": False}})
    assert not any(tool.offered(without) for tool in tools)


@pytest.mark.parametrize(
    ("command", "script"),
    [(["printf", "%s", "$0 a"], "printf %s '$0 a'"), (["sh", "-c", "printf %s '$0 a'"], "printf %s '$0 a'")],
)
def test_a_login_shell_runs_the_command_if_the_configuration_says_so(
    open_thread: Any, command: list[str], script: str
) -> None:
    async def shown(**config: Any) -> tuple[str, ...]:
        async with open_thread(config=config) as thread:
            assert as_json(str(await thread.call(SHELL, json.dumps({"command": command}))))[0] == "$0 a"
            return next(event.command for event in thread.events if isinstance(event, ExecCommandBeginEvent))

    assert asyncio.run(shown()) == tuple(command)
    shell, *rest = asyncio.run(shown(shell_environment_policy={"experimental_use_profile": True}))
    assert Path(shell).is_absolute()
    assert rest == ["-lc", script]


def test_names_and_forms() -> None:
    assert list(SHELL.aliases) == ["container.exec"]
    assert LOCAL_SHELL.spec == NativeSpec("local_shell", "local_shell")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (SHELL, {"command": ["touch", "made"]}),
        (LOCAL_SHELL, {"command": ["touch", "made"]}),
        (SHELL_COMMAND, {"command": "touch made"}),
    ],
)
def test_what_is_switched_off_does_not_run_for_a_model_that_calls_it_all_the_same(
    open_thread: Any, tmp_path: Path, tool: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ToolRefused, match="switched off in the configuration"):
        call(open_thread, tool, arguments, config={"features": {"shell_tool": False}})
    assert not (tmp_path / "made").exists()
    call(open_thread, tool, arguments, config={"features": {"shell_tool": True}})
    assert (tmp_path / "made").exists()
