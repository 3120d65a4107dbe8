"""Options of plugins that open the thread of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, say

PLUGIN = """
import os
from contextlib import asynccontextmanager
from pathlib import Path

from codex_framework import CodexError, ExecOption, Kernel, hookimpl
from codex_framework.config import load_config

@asynccontextmanager
async def open_thread(run):
    {body}
    config = load_config(cwd=Path(run.value), environ=os.environ, flags=run.given)
    async with await Kernel.create(config) as kernel:
        if run.resume:
            yield await kernel.resume_thread(kernel.fork_thread(run.thread) if run.fork else run.thread)
        else:
            yield await kernel.start_thread(approval_policy="never")

@hookimpl
def codex_exec_options():
    return [
        ExecOption(name="at-place", text="Where.", metavar="PLACE", open_thread=open_thread),
        ExecOption(name="beside", text="Where.", metavar="PLACE", open_thread=open_thread),
    ]
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Any:
    def written(body: str = "pass") -> str:
        file = tmp_path / "places.py"
        file.write_text(PLUGIN.replace("{body}", body))
        return str(file)

    return written


def test_a_run_has_the_thread_that_an_option_opens(cli: Any, plugin: Any, tmp_path: Path) -> None:
    server = cli.serve(call("exec_command", cmd="pwd"), say("One."), say("Two."))
    place = tmp_path / "place"
    place.mkdir()
    options = ("--json", "--plugin", plugin(), "--at-place", str(place))
    ran = cli.exec(*options, "-m", "gpt-5.4", "-C", "/no/such/folder", "Go.")
    assert ran.status == 0, ran.err
    items = ["item.started", "item.completed", "item.completed"]
    assert ran.types == ["thread.started", "turn.started", *items, "turn.completed"]
    assert ran.items("command_execution")[0]["aggregated_output"] == f"{place}\n"
    assert server.requests[0].json["model"] == "gpt-5.4"
    forked = cli.exec(*options, "fork", ran.events[0]["thread_id"])
    assert (forked.status, forked.types) == (0, ["thread.started"])
    again = cli.exec(*options, "resume", forked.events[0]["thread_id"], "Again.")
    assert again.items("agent_message") == [{"type": "agent_message", "text": "Two."}]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('raise CodexError("no place", hint="Find one.")', "Error: no place\nFind one."),
        ("5 / 0", "the option --at-place of plugin 'places' failed: ZeroDivisionError"),
        ("yield", "has no attribute 'settings'"),
    ],
)
def test_an_option_that_opens_no_thread_ends_the_program_with_its_reason(
    cli: Any, plugin: Any, body: str, words: str
) -> None:
    server = cli.serve(say("ok"))
    ran = cli.exec("--plugin", plugin(body), "--at-place", "x", "hi")
    assert (ran.status, words in ran.err, server.requests) == (1, True, []), ran.err


def test_one_option_opens_the_thread(cli: Any, plugin: Any) -> None:
    ran = cli.exec("--plugin", plugin(), "--at-place", "x", "--beside", "y", "hi")
    assert (ran.status, "the argument '--at-place' cannot be used with '--beside'" in ran.err) == (2, True)


def test_the_plugin_sees_every_option_of_the_command_line(cli: Any, plugin: Any) -> None:
    body = "raise CodexError(__import__('json').dumps([run.options, run.given]))"
    ran = cli.exec(
        "--plugin", plugin(body), "--at-place", "x", "--ephemeral", "--enable", "a", "-c", "features.b=true", "hi"
    )
    options, given = json.loads(
        next(line for line in ran.err.splitlines() if "Error: " in line).removeprefix("Error: ")
    )
    assert given == {"features": {"a": True, "b": True}}
    assert options.pop("plugin")
    assert options == {"at-place": "x", "ephemeral": True, "enable": ["a"], "config": ["features.b=true"]}
