"""A whole request beside that of Codex 0.169: what is the same, and the differences that the documentation names."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.testing.replies import call, reasoning, say
from codex_framework.testing.server import RecordedRequest, ResponsesServer

BODY = {
    "client_metadata",
    "include",
    "input",
    "model",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "store",
    "stream",
    "text",
    "tool_choice",
    "tools",
}
"""The keys of Codex's body, for ``gpt-5.5``."""

VALUES = {
    "include": ["reasoning.encrypted_content"],
    "model": "gpt-5.5",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium"},
    "store": False,
    "stream": True,
    "text": {"verbosity": "low"},
    "tool_choice": "auto",
}

HEADERS = {
    "accept",
    "accept-encoding",
    "authorization",
    "content-length",
    "content-type",
    "host",
    "originator",
    "session-id",
    "thread-id",
    "user-agent",
    "x-client-request-id",
    "x-codex-turn-metadata",
}
ONLY_OF_CODEX = {"x-codex-beta-features", "x-codex-window-id"}

TURN = {"model", "reasoning_effort", "request_kind", "session_id", "thread_id", "turn_id"}
"""Keys of the metadata of a turn."""

ITEMS = [
    ("message", "developer"),
    ("message", "user"),
    ("message", "user"),
    ("reasoning", None),
    ("function_call", None),
    ("function_call_output", None),
]
"""The input of the second request, without Codex's base instructions, which are a developer message."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Be kind.\n")
    return folder


def requests_of(run: Any) -> list[RecordedRequest]:
    replies = [reasoning("hm", encrypted_content="e") + call("exec_command", cmd="true"), say("done")]
    with ResponsesServer(replies) as server:
        provider = (
            f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses",env_key="MOCK_KEY"}}'
        )
        run((provider, 'model_provider="mock"', 'model="gpt-5.5"', 'sandbox_mode="danger-full-access"'))
        return server.requests


def kinds(request: RecordedRequest) -> list[tuple[str, str | None]]:
    return [(item["type"], item.get("role")) for item in request.json["input"]]


def test_a_request_differs_from_that_of_codex_as_documented(workspace: Path, tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MOCK_KEY": "secret"}

    async def main(overrides: tuple[str, ...]) -> None:
        config = load_config(cwd=workspace, environ=environ, overrides=(*overrides, 'approval_policy="never"'))
        async with await Kernel.create(config, environ=environ) as kernel:
            thread = await kernel.start_thread()
            await thread.run("q")

    first, second = requests_of(lambda overrides: asyncio.run(main(overrides)))
    body = first.json
    assert set(body) - {"client_metadata"} == BODY - {"client_metadata"} | {"instructions"}
    assert {key: body[key] for key in VALUES} == VALUES
    assert set(first.headers) == HEADERS
    metadata = body["client_metadata"]
    turn = json.loads(metadata["x-codex-turn-metadata"])
    assert turn == json.loads(first.headers["x-codex-turn-metadata"])
    assert turn.keys() >= TURN
    assert {metadata[key] for key in ("session_id", "thread_id")} == {turn["thread_id"], turn["session_id"]}
    assert metadata["turn_id"] == turn["turn_id"]
    thread = body["prompt_cache_key"]
    named = {first.headers[name] for name in ("session-id", "thread-id", "x-client-request-id")}
    assert named == {thread}
    assert kinds(second) == ITEMS
    own = [item for item in second.json["input"] if item["type"] in ("message", "function_call_output")]
    assert not [item for item in own if "id" in item]
    assert [item["id"] for item in second.json["input"] if item not in own] == ["rs_1_1", "fc_1_2"]
    assert second.json["input"][: len(body["input"])] == body["input"], "the beginning stays, so that it is cached"


def test_codex_sends_what_is_compared_here(workspace: Path, tmp_path: Path, codex_binary: str) -> None:

    def run(overrides: tuple[str, ...]) -> None:
        options = [word for override in overrides for word in ("-c", override)]
        subprocess.run(
            [codex_binary, "exec", "--skip-git-repo-check", *options, "q"],
            cwd=workspace,
            env={"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path), "PATH": os.environ["PATH"], "MOCK_KEY": "secret"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )

    first, second = requests_of(run)
    assert set(first.json) == BODY
    assert {key: first.json[key] for key in VALUES} == VALUES
    assert set(first.headers) == HEADERS | ONLY_OF_CODEX
    assert json.loads(first.headers["x-codex-turn-metadata"]).keys() >= TURN
    assert {"session_id", "thread_id", "turn_id", "x-codex-turn-metadata"} <= first.json["client_metadata"].keys()
    assert kinds(second) == [("message", "developer"), *ITEMS]
    assert all("id" in item for item in second.json["input"])
