"""The same hooks in Codex and here: what they read, what their answers do, and what counts as trusted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.testing import ResponsesServer, call, say
from tests.plugins.hooks.conftest import RECORD, group, prints, specific
from tests.plugins.rollout.conftest import AppServer

EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse"),
    *("Stop", "PreCompact", "PostCompact", "PreModelRequest", "PostModelRequest", "SessionEnd"),
)
ALLOW = "print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PermissionRequest', 'decision': {'behavior': 'allow'}}}))"
AGAIN = "data['stop_hook_active'] or print(json.dumps({'decision': 'block', 'reason': 'again'}))"
ECHO = [call("exec_command", cmd="echo one", login=False), say("done")]


class Both:
    """One ``$CODEX_HOME`` for both programs."""

    def __init__(self, folder: Path, binary: str) -> None:
        self.home, self.work, self.binary = folder / "home", folder / "work", binary
        self.home.mkdir()
        self.work.mkdir()
        self.log = self.home / "log.jsonl"

    def write(self, events: dict[str, list[Any]]) -> None:
        """Write ``hooks.json`` and trust it with the command of this project."""
        (self.home / "hooks.json").write_text(json.dumps({"hooks": {name: list(of) for name, of in events.items()}}))
        argv = [sys.executable, "-m", "codex_framework", "hooks", "trust", "--yes"]
        subprocess.run(argv, env=self.environ, cwd=self.work, check=True, stdout=subprocess.DEVNULL)

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home.parent), "CODEX_HOME": str(self.home), "PATH": os.environ["PATH"]}

    def records(self, *, code: str = "") -> str:
        file = self.home / f"hook{len(list(self.home.glob('hook*.py')))}.py"
        file.write_text(RECORD.format(log=str(self.log)) + code)
        return f"{sys.executable} -S {file}"

    def taken(self) -> list[dict[str, Any]]:
        """Return what the hooks have read since the last call, without what differs by chance."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [plain(json.loads(line)) for line in lines]

    def codex(self, replies: list[Any], *, compact: bool = False, **settings: Any) -> list[Any]:
        """Run a turn in Codex, and after a compaction another one. Return the requests to the model."""
        with ResponsesServer(replies, repeat_last=True) as server:
            with AppServer(self.binary, self.home, self.work, server.url) as app:
                (listed,) = app.request("hooks/list", cwds=[str(self.work)])["data"]
                assert {hook["trustStatus"] for hook in listed["hooks"]} == {"trusted"}
                thread = app.request("thread/start", cwd=str(self.work), **settings)["thread"]["id"]
                app.turn(thread, "hello")
                if compact:
                    app.request("thread/compact/start", threadId=thread)
                    app._wait(lambda message: message.get("method") == "turn/completed")
                    app.turn(thread, "next")
            return [request.json for request in server.requests if request.body]

    def here(self, replies: list[Any], *, compact: bool = False, approvalPolicy: str, sandbox: str) -> list[Any]:
        """Do the same here."""
        with ResponsesServer(replies, repeat_last=True) as server:
            provider = f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses"}}'
            names = ('model_provider="mock"', 'model="gpt-5.5"', f'sandbox_mode="{sandbox}"')
            overrides = (provider, *names, f'approval_policy="{approvalPolicy}"')

            async def main() -> None:
                config = load_config(cwd=self.work, environ=self.environ, overrides=overrides)
                async with await Kernel.create(config, environ=self.environ) as kernel:
                    thread = await kernel.start_thread()
                    await thread.run("hello")
                    if compact:
                        await thread.submit(kernel.op("compact"))
                        await thread.settled()
                        await thread.run("next")

            asyncio.run(main())
            return [request.json for request in server.requests if request.body]


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """Return an input without ids."""
    left_out = ("session_id", "turn_id", "thread_id", "request_id", "response_id", "transcript_path")
    found = {name: value for name, value in data.items() if name not in left_out}
    path = data["transcript_path"]
    ids = {"session_id": len(data["session_id"]), "turn_id": "turn_id" in data}
    return {**found, **ids, "transcript": path and path.endswith(f"-{data['session_id']}.jsonl")}


@pytest.fixture
def both(tmp_path: Path, codex_binary: str) -> Both:
    return Both(tmp_path, codex_binary)


def test_hooks_read_the_same(both: Both) -> None:
    code = {"PermissionRequest": ALLOW, "Stop": AGAIN}
    both.write({event: [group(both.records(code=code.get(event, "")))] for event in EVENTS})
    asks = {"sandbox_permissions": "require_escalated", "justification": "to see"}
    calls = [
        call("exec_command", cmd=text, login=False, **more) for text, more in (("echo a; exit 3", {}), ("id -u", asks))
    ]
    replies = [*calls, say("one"), say("two"), say("summary"), say("three"), say("four")]
    settings = {"compact": True, "approvalPolicy": "on-request", "sandbox": "read-only"}
    both.codex(replies, **settings)
    theirs = both.taken()
    both.here(replies, **settings)
    ours = both.taken()
    assert {each["hook_event_name"] for each in theirs} == set(EVENTS)
    # A call begins while the rest of its response arrives: in both programs the order of its hooks and of PostModelRequest is chance.
    for of_requests in (True, False):
        assert [each for each in ours if ("kind" in each) is of_requests] == [
            each for each in theirs if ("kind" in each) is of_requests
        ]


ANSWERS = {
    "exit 0 with text": ("PreToolUse", "echo text"),
    "exit 1": ("PreToolUse", "echo bad >&2; exit 1"),
    "exit 2": ("PreToolUse", "echo why >&2; exit 2"),
    "exit 2 without a reason": ("PreToolUse", "exit 2"),
    "exit 2 outweighs an answer": ("PreToolUse", f"echo why >&2; {prints({'systemMessage': 'S'})}; exit 2"),
    "exit 1 outweighs an answer": ("PreToolUse", f"{prints({'decision': 'block', 'reason': 'x'})}; exit 1"),
    "signal": ("PreToolUse", "kill -9 $$"),
    "missing program": ("PreToolUse", "/no/such/program"),
    "deny": ("PreToolUse", specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="nope")),
    "deny without a reason": ("PreToolUse", specific("PreToolUse", permissionDecision="deny")),
    "block": ("PreToolUse", {"decision": "block", "reason": "nope"}),
    "approve": ("PreToolUse", {"decision": "approve"}),
    "ask": ("PreToolUse", specific("PreToolUse", permissionDecision="ask")),
    "rewrite": (
        "PreToolUse",
        specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo changed"}),
    ),
    "rewrite without allow": ("PreToolUse", specific("PreToolUse", updatedInput={"command": "echo changed"})),
    "other event": ("PreToolUse", specific("Stop", permissionDecision="deny", permissionDecisionReason="nope")),
    "unknown field": ("PreToolUse", {"decision": "block", "reason": "x", "foo": 1}),
    "wrong type": ("PreToolUse", {"decision": "block", "reason": 5}),
    "broken": ("PreToolUse", "printf '{broken'"),
    "more after the answer": ("PreToolUse", f"{prints({'decision': 'block', 'reason': 'x'})}; echo more"),
    "twice the same field": ("PreToolUse", 'printf \'%s\' \'{"decision":"block","reason":"x","reason":"y"}\''),
    "continue false before a call": ("PreToolUse", {"continue": False}),
    "context before a call": ("PreToolUse", specific("PreToolUse", additionalContext="CONTEXT")),
    "feedback": ("PostToolUse", {"decision": "block", "reason": "FEEDBACK"}),
    "exit 2 after a call": ("PostToolUse", "echo FEEDBACK >&2; exit 2"),
    "context after a call": ("PostToolUse", specific("PostToolUse", additionalContext="CONTEXT")),
    "continue false after a call": ("PostToolUse", {"continue": False, "stopReason": "enough"}),
    "other output": ("PostToolUse", specific("PostToolUse", updatedMCPToolOutput={"a": 1})),
    "prompt blocked": ("UserPromptSubmit", {"decision": "block", "reason": "no"}),
    "prompt, exit 2": ("UserPromptSubmit", "echo no >&2; exit 2"),
    "prompt, exit 1": ("UserPromptSubmit", "echo no >&2; exit 1"),
    "prompt, text": ("UserPromptSubmit", "echo CONTEXT"),
    "prompt, continue false": ("UserPromptSubmit", {"continue": False}),
    "session, text": ("SessionStart", "echo CONTEXT"),
    "session, exit 2": ("SessionStart", "echo CONTEXT >&2; exit 2"),
    "session, continue false": ("SessionStart", {"continue": False, "stopReason": "no"}),
    "stop, text": ("Stop", "echo text"),
    "stop, continue false": ("Stop", {"continue": False, "stopReason": "no"}),
    "stop, block": ("Stop", "grep -q 'stop_hook_active\": *true' && exit 0; echo 'go <on> & \"x\"' >&2; exit 2"),
}


@pytest.mark.parametrize(("event", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_has_the_same_effect(both: Both, event: str, answer: Any) -> None:
    both.write({event: [group(answer if isinstance(answer, str) else prints(answer))]})
    settings = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
    theirs, ours = both.codex(ECHO, **settings), both.here(ECHO, **settings)
    assert len(ours) == len(theirs)
    assert seen(ours) == seen(theirs)


def seen(requests: list[Any]) -> list[Any]:
    """Return what the model has read at last: outputs of calls, and texts of hooks."""
    found = []
    for item in requests[-1]["input"] if requests else ():
        if item["type"] == "function_call_output":
            found.append(re.sub(r"Chunk ID: \w+\nWall time: [\d.]+", "", item["output"]))
        for part in item["content"] if item["type"] == "message" else ():
            if re.search("CONTEXT|<hook_prompt", part.get("text", "")):
                found.append((item["role"], part["text"]))
    return sorted(found, key=str)
