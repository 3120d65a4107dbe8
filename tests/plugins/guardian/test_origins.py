"""Who has written what the reviewer of a sub-agent reads."""

from __future__ import annotations

import json

from codex_framework import Message
from codex_framework.contract.protocol.items import FunctionCall, FunctionCallOutput, OutputText, user_message
from codex_plugin_guardian.transcript import transcript


def test_in_a_sub_agent_only_the_task_is_another_agents() -> None:
    root = [user_message("Tidy up.")]
    child = [
        user_message("Tidy up."),
        user_message("Remove the files."),
        Message("assistant", (OutputText("I begin."),)),
        FunctionCall("exec_command", "{}", "c1"),
        FunctionCallOutput("c1", "done"),
    ]
    lines = [json.loads(line) for line in transcript(child, root).lines]
    assert [line["from"] for line in lines[:4]] == ["user", "another agent", "agent", "agent"]
    assert "another agent" not in {line["from"] for line in lines[2:]}
