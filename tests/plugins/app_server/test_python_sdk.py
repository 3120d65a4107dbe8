"""The Python SDK of Codex, from PyPI and unmodified, drives our command. ``python_sdk.py`` has the checks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.reading import RecordedRequest
from codex_framework.testing.replies import call, custom_call, fault, reasoning, say
from tests.plugins.app_server.installed import python_with

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("codex-framework")
SCRIPT = Path(__file__).with_name("python_sdk.py")


@pytest.fixture(scope="session")
def sdk_python() -> Path:
    """The interpreter of an environment with the SDK, without the real program, on which it depends."""
    return python_with("python-sdk", "pydantic", "packaging", alone=["openai-codex"])


@pytest.fixture
def play(home: Any, sdk_python: Path) -> Callable[[str], None]:
    def run(check: str) -> None:
        env = {**home.env, "PROGRAM": str(PROGRAM), "WORK": str(home.work)}
        ran = subprocess.run(
            [sdk_python, SCRIPT, check], env=env, capture_output=True, text=True, timeout=110, cwd=home.work
        )
        assert ran.stdout == "ok\n", f"{ran.stdout}\n{ran.stderr}"

    return run


def _escalated(home: Any) -> Any:
    command = f"echo x >> {home.path.parent}/mark; echo ran"
    return call(
        "exec_command", cmd=command, sandbox_permissions="require_escalated", justification="the probe wants it"
    )


def _patch(path: object) -> Any:
    return custom_call("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n+hi\n*** End Patch")


def _numbered(request: RecordedRequest) -> Any:
    """Answer ``question N`` with ``answer N``."""
    return say(f"answer {json.dumps(request.json['input']).rpartition('question ')[2][0]}")


def _sleeping(seconds: float) -> Any:
    return call("exec_command", cmd=f"sleep {seconds}; echo slept", yield_time_ms=30_000)


_NO_TEMPORARY_FOLDERS = "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true"
"""The folders of tests are temporary, so that commands could write beside the workspace."""

REPLIES: dict[str, Callable[[Any], Sequence[Any]]] = {
    "initialize": lambda _: [],
    "run": lambda _: [say("Hello.")],
    "stream_deltas": lambda _: [reasoning("thinking", deltas=2) + say("Hello from the model", deltas=3)],
    "two_turns": lambda _: [say("one"), say("two")],
    "command_execution": lambda _: [call("exec_command", cmd="echo from-tool"), say("done")],
    "file_change": lambda home: [_patch(home.work / "new.txt"), say("done")],
    "approval_accept": lambda home: [_escalated(home), _escalated(home), say("ok")],
    "approval_accept_for_session": lambda home: [_escalated(home), _escalated(home), say("ok")],
    "approval_decline": lambda home: [_escalated(home), say("ok")],
    "approval_cancel": lambda home: [_escalated(home), say("ok")],
    "file_change_approval": lambda home: [_patch(home.path.parent / "mark"), say("ok")],
    "deny_all_sandboxed": lambda home: [call("exec_command", cmd=f"echo x > {home.path.parent}/mark"), say("ok")],
    "interrupt": lambda _: [fault(hang_s=60.0), say("after")],
    "interrupt_command": lambda _: [_sleeping(60), say("no")],
    "steer": lambda _: [_sleeping(1), say("done")],
    "list_read_name_archive": lambda _: [say("one"), say("two")],
    "resume_in_new_process": lambda _: [call("exec_command", cmd="echo from-tool"), say("one"), say("two")],
    "fork": lambda _: [say("one"), say("two"), say("three")],
    "compact": lambda _: [say("one"), say("summary"), say("three")],
    "models": lambda _: [],
    "account": lambda _: [],
    "output_schema": lambda _: [say('{"status": "fine"}'), say("plain")],
    "images": lambda _: [say("seen")],
    "turn_options": lambda _: [say("ok")],
    "failed_turn": lambda _: [fault(failed={"code": "other", "message": "probe failure text"})],
    "http_errors": lambda _: [
        fault(401, body={"error": {"message": "probe unauthorized"}}),
        fault(400, body={"error": {"message": "probe bad request"}}),
    ],
    "rpc_errors": lambda _: [say("ok")],
    "concurrent_threads": lambda _: [_numbered] * 4,
    "ends_with_stdin": lambda _: [],
    "external_message": lambda _: [say("ok")],
    "goal": lambda _: [say("working"), call("update_goal", status="complete"), say("goal reached")],
}


@pytest.mark.parametrize("check", REPLIES)
def test_sdk_check(home: Any, play: Callable[[str], None], check: str) -> None:
    home.serve(*REPLIES[check](home), more=_NO_TEMPORARY_FOLDERS)
    play(check)


def test_sdk_sends_what_the_turn_asks_for(home: Any, play: Callable[[str], None]) -> None:
    model = home.serve(say("ok"))
    play("turn_options")
    sent = model.requests[0].json
    assert sent["instructions"] == "BASE-INSTR"
    assert "DEV-INSTR" in json.dumps(sent["input"])
    assert sent["reasoning"] == {"effort": "high", "summary": "detailed"}


def test_sdk_steered_text_and_schema_reach_the_model(home: Any, play: Callable[[str], None]) -> None:
    model = home.serve(*REPLIES["steer"](home))
    play("steer")
    assert "steered text" in json.dumps(model.requests[1].json["input"])
