"""Editors that speak the Agent Client Protocol work through npm's ``codex-acp``, unmodified. ``acp_client.py`` has the checks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.reading import RecordedRequest
from codex_framework.testing.replies import call, fault, say
from tests.plugins.app_server.installed import node_modules, python_with

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("codex-framework")
SCRIPT = Path(__file__).with_name("acp_client.py")


@pytest.fixture(scope="session")
def acp_python() -> Path:
    return python_with("agent-client-protocol", "agent-client-protocol")


@pytest.fixture(scope="session")
def bridge() -> Path:
    return node_modules("codex-acp", "@agentclientprotocol/codex-acp") / "@agentclientprotocol/codex-acp/dist/index.js"


def _answers(replies: Sequence[Any]) -> Callable[[RecordedRequest], Any]:
    """Answer the conversation with replies, and the bridge's question for a title with a title."""
    left = list(replies)

    def answer(request: RecordedRequest) -> Any:
        if "generate a very short title" in json.dumps(request.json["input"]):
            return say('{"title": "A title"}')
        return left.pop(0)

    return answer


def _escalated(home: Any) -> Any:
    command = f"echo x >> {home.path.parent}/mark"
    return call("exec_command", cmd=command, sandbox_permissions="require_escalated", justification="why not")


REPLIES: dict[str, Callable[[Any], Sequence[Any]]] = {
    "initialize": lambda _: [],
    "prompt": lambda _: [say("one")],
    "two_prompts": lambda _: [say("one"), say("two")],
    "tool_call_and_permission": lambda home: [_escalated(home), say("ok")],
    "permission_rejected": lambda home: [_escalated(home), say("ok")],
    "cancel": lambda _: [call("exec_command", cmd="sleep 60", yield_time_ms=30_000), say("no")],
    "load_session": lambda _: [say("one"), say("two")],
    "list_sessions": lambda _: [say("one")],
    "failed_turn": lambda _: [fault(failed={"code": "other", "message": "probe failure text"})],
}


@pytest.mark.parametrize("check", REPLIES)
def test_editor_check(home: Any, acp_python: Path, bridge: Path, check: str) -> None:
    home.serve(_answers(REPLIES[check](home)), repeat_last=True)
    env = {**home.env, "BRIDGE": str(bridge), "PROGRAM": str(PROGRAM), "WORK": str(home.work)}
    ran = subprocess.run(
        [acp_python, SCRIPT, check], env=env, capture_output=True, text=True, timeout=110, cwd=home.work
    )
    assert ran.stdout == "ok\n", f"{ran.stdout}\n{ran.stderr}"
