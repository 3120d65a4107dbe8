"""What commands do, as clients show it: compared with what Codex 0.171 says of the same scripts."""

from __future__ import annotations

import asyncio
import json
import os.path
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.protocol.events import ExecCommandBeginEvent, ExecCommandEndEvent
from codex_lib_shell_script.actions import command_actions
from codex_plugin_shell import codex_tools as shell_tools
from codex_plugin_unified_exec import codex_tools as session_tools

RECORDED = {
    line["script"]: line["actions"]
    for line in map(json.loads, (Path(__file__).parent / "command_actions.jsonl").read_text("utf-8").splitlines())
}
"""Actions of Codex. It shows the paths of the files that are read as absolute ones; here they are relative to the command's folder."""

DIFFERENT = {
    # a change is not shown as something that only looks around
    "find . -name x -delete",
    "cat a.txt | xargs rm",
    # words with a backslash are read as the shell reads them
    r"cat a\ b.txt",
    r"rg a\\.b src",
    r"find . \( -name a -o -name b \)",
    # a tilde within a word, and xargs before an option with braces
    "rg a@b~c src",
    "cat a.txt | xargs -I{} sed -n 1p {}",
    # Codex counts the semicolon as part of the name that it shows
    "cat a.txt;",
    "cat a.txt; ",
    # Codex shows no action at all
    "cd",
    "cd src",
    "true && true",
}


def described(script: str) -> list[dict[str, Any]]:
    actions = command_actions(("bash", "-c", script), script) or ({"type": "unknown", "cmd": script},)
    return [
        {**action, "path": os.path.normpath(action["path"])} if action["type"] == "read" else dict(action)
        for action in actions
    ]


def test_commands_are_described_as_codex_describes_them_but_for_a_few() -> None:
    unequal = {script: described(script) for script, actions in RECORDED.items() if described(script) != actions}
    assert unequal.keys() == DIFFERENT, {script: unequal[script] for script in unequal.keys() - DIFFERENT}
    assert len(DIFFERENT) < len(RECORDED) * 0.05


@pytest.mark.parametrize(
    "script",
    [
        *("rg -l x | xargs rm", "ls | xargs -I {} mv {} {}.bak", "ls | xargs sed -i s/a/b/", "ls | xargs -n 1 perl -pi -e x"),
        *("find . -exec rm '{}' +", "find . -fprint out", "cat a | tee b", "cat a > b", "cat a && rm a", "ls; rm -rf x"),
        *("cat $(rm a)", "cat `rm a`", "ls & rm a", "python3 -c 'import os; os.remove(1)'", "git grep -O x; git push"),
        *("cat <(rm a)", "A=$(rm a) cat b", "sed -i 1,5p a", "cat a <<E\nrm\nE", "if ls; then rm a; fi"),
    ],
)  # fmt: skip
def test_a_script_that_changes_something_is_not_described_as_one_that_looks(script: str) -> None:
    assert command_actions(("bash", "-c", script), script) is None


def test_a_command_without_a_shell_is_described_by_its_words() -> None:
    assert command_actions(["cat", "a b.txt"]) == (
        {"type": "read", "cmd": "cat 'a b.txt'", "name": "a b.txt", "path": "a b.txt"},
    )
    assert command_actions(["cat", "a", "|", "b"]) is None
    assert command_actions([]) is None


def test_a_script_too_long_for_a_line_is_not_described() -> None:
    assert command_actions((), "cat " + "a" * 9_990) is not None
    assert command_actions((), "cat " + "a" * 10_000) is None


WORDS = st.sampled_from(
    [
        *(
            "-n",
            "-e",
            "--",
            "-f",
            "1,5p",
            "|",
            "||",
            "&&",
            ";",
            "'",
            '"',
            "\\",
            "{",
            "}",
            "(",
            ")",
            "$",
            "#",
            "!",
            "\n",
            "",
        ),
        *("cd", "sed", "head", "tail", "xargs", "nl", "find", "rg", "-name", "git", "grep", "awk", "fd", "cat"),
    ]
)


@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join)), st.lists(st.one_of(st.text(), WORDS)))
def test_any_text_is_described_or_unknown(script: str, argv: list[str]) -> None:
    for actions in (command_actions(argv), command_actions(argv, script)):
        assert actions is None or {action["type"] for action in actions} <= {"read", "list_files", "search"}


SCRIPT = "cat a.txt && rg foo src"
READ = {"type": "read", "cmd": "cat a.txt", "name": "a.txt", "path": "a.txt"}
ACTIONS = ({**READ}, {"type": "search", "cmd": "rg foo src", "query": "foo", "path": "src"})


def shown(open_thread: Any, tool: str, arguments: dict[str, Any], **facts: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with open_thread() as thread:
            tools = {entry.spec.name: entry for entry in (*shell_tools(), *session_tools())}
            await thread.call(tools[tool], json.dumps(arguments), **facts)
            events = (
                event for event in thread.events if isinstance(event, ExecCommandBeginEvent | ExecCommandEndEvent)
            )
            return [event.parsed_cmd for event in events]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec_command", {"cmd": SCRIPT}),
        ("shell_command", {"command": SCRIPT}),
        ("shell", {"command": ["bash", "-lc", SCRIPT]}),
    ],
)
def test_clients_see_what_a_command_does_at_its_begin_and_its_end(
    open_thread: Any, tool: str, arguments: dict[str, Any]
) -> None:
    assert shown(open_thread, tool, arguments) == [ACTIONS, ACTIONS]


def test_variables_of_a_call_are_shown_rather_than_what_the_command_does(open_thread: Any) -> None:
    action = {"type": "exec", "command": ["cat", "a.txt"], "env": {"PAGER": "x"}}
    expected = ({"type": "unknown", "cmd": "env PAGER=x cat a.txt"},)
    assert shown(open_thread, "local_shell", action, kind="local_shell") == [expected, expected]
    assert shown(open_thread, "local_shell", {**action, "env": {}}, kind="local_shell") == [(READ,), (READ,)]
