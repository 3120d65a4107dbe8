"""The TypeScript SDK of Codex, from npm and unmodified, drives our command."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, fault, say

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
COMMAND = Path(sys.executable).with_name("codex-framework")
Play = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def sdk() -> Path:
    """A folder with the SDK; installed once a day into the user's cache."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "codex-framework-tests" / "typescript-sdk"
    folder.mkdir(parents=True, exist_ok=True)
    installed = folder / "node_modules/@openai/codex-sdk/package.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "installed"
        if not installed.exists() or not stamp.exists() or time.time() - stamp.stat().st_mtime > 86_400:
            # Without the optional packages: they are the real program, 100 MB of it.
            argv = [
                npm,
                "install",
                "--omit=optional",
                "--no-audit",
                "--no-fund",
                "--silent",
                "@openai/codex-sdk@latest",
            ]
            done = subprocess.run(
                argv, cwd=folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
            )
            if done.returncode == 0:
                stamp.touch()
            elif not installed.exists():
                pytest.skip(f"the SDK cannot be installed: {done.stderr.strip()[-300:]}")
    shutil.copy(Path(__file__).with_name("typescript_sdk.mjs"), folder / "typescript_sdk.mjs")
    return folder


@pytest.fixture
def play(cli: Any, sdk: Path, tmp_path: Path) -> Play:
    image = tmp_path / "p.png"
    image.write_bytes(base64.b64decode(PNG))

    def run(which: str, thread_id: str = "") -> dict[str, Any]:
        argv = ["node", str(sdk / "typescript_sdk.mjs"), str(COMMAND), str(cli.work), str(image), which, thread_id]
        ran = subprocess.run(argv, env=cli.env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, ran.stderr
        result: dict[str, Any] = json.loads(ran.stdout)
        return result

    return run


def test_run(cli: Any, play: Play) -> None:
    server = cli.serve(say("Hello."))
    result = play("run")
    assert result == {
        "id": server.requests[0].json["prompt_cache_key"],
        "final": "Hello.",
        "usage": {
            "input_tokens": 100,
            "cached_input_tokens": 10,
            "cache_write_input_tokens": 0,
            "output_tokens": 20,
            "reasoning_output_tokens": 5,
        },
        "items": ["agent_message"],
    }
    assert server.requests[0].headers["originator"] == "codex_sdk_ts"
    assert server.requests[0].headers["user-agent"].startswith("codex_sdk_ts/")


def test_run_streamed(cli: Any, play: Play) -> None:
    cli.serve(call("exec_command", cmd="echo hi"), say("Done."))
    seen = play("runStreamed")["seen"]
    assert [event["type"] for event in seen] == [
        "thread.started",
        "turn.started",
        "item.started",
        "item.completed",
        "item.completed",
        "turn.completed",
    ]
    assert seen[3]["item"] == {
        "id": "item_0",
        "type": "command_execution",
        "command": "/bin/bash -lc 'echo hi'",
        "aggregated_output": "hi\n",
        "exit_code": 0,
        "status": "completed",
    }


def test_calls_of_plain_tools_are_items_of_the_sdk(cli: Any, play: Play) -> None:
    cli.serve(call("list_agents"), say("Nobody."))
    seen = play("runStreamed")["seen"]
    assert [event["type"] for event in seen[2:4]] == ["item.started", "item.completed"]
    (text,) = seen[3]["item"]["result"].pop("content")
    assert text["type"] == "text"
    assert seen[3]["item"] == {
        "id": "item_0",
        "type": "mcp_tool_call",
        "server": "sub_agents",
        "tool": "list_agents",
        "arguments": {},
        "result": {"structured_content": None},
        "error": None,
        "status": "completed",
    }


def test_resume_thread(cli: Any, play: Play, user_texts: Any) -> None:
    server = cli.serve(say("Hello."), say("You asked for a hello."))
    thread_id = play("run")["id"]
    assert play("resumeThread", thread_id) == {"final": "You asked for a hello."}
    said = user_texts(server.requests[1].json)
    assert said[-2:] == ["Say hello.", "What did I say?"]


def test_output_schema(cli: Any, play: Play) -> None:
    server = cli.serve(say('{"answer": 42}'))
    result = play("outputSchema")
    assert result["final"] == {"answer": 42}
    assert server.requests[0].json["text"]["format"] == {
        "type": "json_schema",
        "strict": True,
        "name": "codex_output_schema",
        "schema": result["schema"],
    }


def test_images(cli: Any, play: Play, user_texts: Any) -> None:
    server = cli.serve(say("A dot."))
    assert play("images") == {"final": "A dot."}
    parts = server.requests[0].json["input"][-1]["content"]
    assert [part["image_url"] for part in parts if part["type"] == "input_image"] == [f"data:image/png;base64,{PNG}"]
    assert user_texts(server.requests[0].json)[-1] == "First.\n\nLook."


def test_a_failed_turn_throws_its_message(cli: Any, play: Play) -> None:
    cli.serve(fault(status=400, body={"error": {"message": "no such model"}}))
    assert "no such model" in play("failure")["message"]


def test_an_early_failure_throws_and_does_not_crash_the_caller(cli: Any, play: Play) -> None:
    cli.serve(say("never"))
    message = play("earlyFailure")["message"]
    assert message.startswith("Codex Exec exited with code 1:")
    assert "/no/such/folder does not exist" in message


def test_abort_keeps_the_thread(cli: Any, play: Play, user_texts: Any) -> None:
    server = cli.serve(call("exec_command", cmd="echo $$ > pid; exec sleep 100", yield_time_ms=30000), say("Resumed."))
    aborted = play("abort")
    assert aborted["name"] == "AbortError"
    pid = int((cli.work / "pid").read_text())
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
    assert play("resumeThread", aborted["id"]) == {"final": "Resumed."}
    assert "Remember me." in user_texts(server.requests[1].json)
