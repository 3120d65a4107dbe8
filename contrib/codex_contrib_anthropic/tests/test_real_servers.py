"""Servers that others wrote, in the folder ``CODEX_MODEL_SERVERS``.

aimock of npm (``npm install @copilotkit/aimock``), and LiteLLM's proxy in the environment ``litellm``
(``python -m venv litellm; litellm/bin/pip install 'litellm[proxy]'``), which makes Messages out of Chat Completions.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from message_blocks import CITED, SHOWN, check_rules, found, response, text, thinking, use

from codex_framework.testing import CHAT, ModelServer, call, say

FOLDER = Path(os.environ.get("CODEX_MODEL_SERVERS") or "/nowhere")
PROGRAM = FOLDER / "node_modules/@copilotkit/aimock/dist/cli.js"

GATEWAY = FOLDER / "litellm/bin/litellm"
KEY = "sk-test-0123456789abcdef"
START_S = 120.0

with_aimock = pytest.mark.skipif(
    not PROGRAM.exists() or shutil.which("node") is None,
    reason="CODEX_MODEL_SERVERS names no folder with @copilotkit/aimock, or there is no node",
)


def tool_call(name, call_id, **arguments):
    return {"id": call_id, "name": name, "arguments": json.dumps(arguments)}


def prompted(turn, response):
    return {"match": {"userMessage": f"step {turn}", "hasToolResult": False}, "response": response}


def told(call_id, response):
    return {"match": {"toolCallId": call_id}, "response": response}


TWO = [tool_call("exec_command", "call_b", cmd="echo two >> log"), tool_call("exec_command", "call_c", cmd="cat log")]
THREE = [tool_call("exec_command", "call_d", cmd="echo three >> log")]
FIXTURES = [
    prompted(1, {"reasoning": "One.", "toolCalls": [tool_call("exec_command", "call_a", cmd="echo one >> log")]}),
    told("call_a", {"reasoning": "Two.", "toolCalls": TWO}),
    told("call_c", {"content": "Two lines."}),
    prompted(2, {"reasoning": "Three.", "content": "Now three.", "toolCalls": THREE}),
    told("call_d", {"content": "Three lines."}),
]


@pytest.fixture
def aimock(tmp_path):
    """The URL of a running server. It refuses a loop of tools whose thoughts or signatures are missing (``--strict``)."""
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
    command = ["node", str(PROGRAM), "-p", "0", "-f", str(fixtures), "--log-level", "info", "--strict"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        seen = ""
        try:
            for line in server.stdout:
                seen += line
                if found := re.search(r"http://[\w.:\[\]]+:(\d+)", line):
                    yield f"http://127.0.0.1:{found[1]}"
                    break
            else:
                pytest.fail(f"aimock did not start: {seen}")
        finally:
            server.terminate()


@with_aimock
def test_a_tool_loop_with_thoughts_completes(make_kernel, workspace, aimock):
    config = (
        'model = "claude-sonnet-4-5"\nmodel_provider = "real"\nsandbox_mode = "danger-full-access"\n'
        f'approval_policy = "never"\n[model_providers.real]\nbase_url = "{aimock}/v1"\nwire_api = "messages"\n'
        'experimental_bearer_token = "any"\n'
    )

    async def run():
        async with make_kernel(config=config) as kernel:
            thread = await kernel.start_thread()
            return [await thread.run(f"step {number}") for number in (1, 2)]

    results = asyncio.run(run())
    assert [(result.final_message, result.error) for result in results] == [
        ("Two lines.", None),
        ("Three lines.", None),
    ]
    assert sorted((workspace / "log").read_text().split()) == ["one", "three", "two"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def gateway(tmp_path):
    """The URL of a running gateway, and the port at which it expects the servers behind it: one with chats, and one with messages."""
    port, behind = free_port(), free_port()
    upstream = {"model": "custom_openai/up", "api_base": f"http://127.0.0.1:{behind}/v1", "api_key": "none"}
    own = {"model": "anthropic/claude-sonnet-4-5", "api_base": f"http://127.0.0.1:{behind}", "api_key": "none"}
    settings = {
        "model_list": [
            {"model_name": "up", "litellm_params": upstream},
            {"model_name": "claude-sonnet-4-5", "litellm_params": own},
        ],
        "general_settings": {"master_key": KEY},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    env = {**os.environ, "HOME": str(tmp_path), "LITELLM_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [GATEWAY, "--config", tmp_path / "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=tmp_path) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, tmp_path / "log")
            yield f"http://127.0.0.1:{port}/v1", behind
        finally:
            process.terminate()


def wait_for(url, process, log):
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # a server on loopback
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"LiteLLM did not start: {log.read_text()[-2000:]}")


with_gateway = pytest.mark.skipif(
    not GATEWAY.exists(), reason="CODEX_MODEL_SERVERS names no folder with LiteLLM in `litellm`"
)


@with_gateway
def test_searches_go_through_a_gateway(make_kernel, workspace, gateway, serve):
    url, behind = gateway
    blocks = [thinking("Hm."), use("a"), found("a"), use("b", "snow")]
    call = {"type": "tool_use", "id": "t1", "name": "exec_command", "input": {"cmd": "echo x >> log"}}
    responses = [
        response(1, "pause_turn", *blocks),
        response(2, "tool_use", found("b"), use("c"), call),
        response(3, "end_turn", found("c"), *CITED[4:]),  # of a failed search, LiteLLM makes a text
        response(4, "end_turn", text("No.")),
    ]
    config = (
        'model = "claude-sonnet-4-5"\nmodel_provider = "real"\nsandbox_mode = "danger-full-access"\n'
        'approval_policy = "never"\nweb_search = "live"\n'
        f'[model_providers.real]\nbase_url = "{url}"\nwire_api = "messages"\nenv_key = "GATEWAY_KEY"\n'
    )

    async def run():
        async with make_kernel(config=config, env={"GATEWAY_KEY": KEY}) as kernel:
            thread = await kernel.start_thread()
            return [await thread.run(words) for words in ("Rain?", "And snow?")]

    with serve(*responses, port=behind) as server:
        results = asyncio.run(run())
        bodies = [request.json for request in server.requests]
    assert [(result.final_message, result.error) for result in results] == [(SHOWN, None), ("No.", None)]
    assert (workspace / "log").read_text() == "x\n"
    for body in bodies:
        check_rules(body)
        assert body["tools"][-1]["type"] == "web_search_20250305"
    said = [message["content"] for message in bodies[-1]["messages"] if message["role"] == "assistant"]
    assert said == [[*blocks, found("b"), use("c"), call], [found("c"), *CITED[4:]]]


@with_gateway
def test_a_tool_loop_through_a_gateway_completes(make_kernel, workspace, gateway):
    url, behind = gateway
    replies = [
        call("exec_command", cmd="echo one >> log"),
        say("Now two.", deltas=3)
        + call("exec_command", cmd="echo two >> log")
        + call("exec_command", cmd="echo 2 >> log"),
        say("Three lines.", deltas=4),
        call("exec_command", cmd="echo three >> log"),
        say("Four lines.", deltas=4),
    ]
    config = (
        'model = "up"\nmodel_provider = "real"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[model_providers.real]\nbase_url = "{url}"\nwire_api = "messages"\nenv_key = "GATEWAY_KEY"\n'
    )

    async def run():
        async with make_kernel(config=config, env={"GATEWAY_KEY": KEY}) as kernel:
            thread = await kernel.start_thread()
            return [await thread.run(f"step {number}") for number in (1, 2)]

    with ModelServer(replies, wires=[CHAT], port=behind) as server:
        results = asyncio.run(run())
        last = server.requests[-1].json["messages"]
    assert [(result.final_message, result.error) for result in results] == [
        ("Three lines.", None),
        ("Four lines.", None),
    ]
    assert sorted((workspace / "log").read_text().split()) == ["2", "one", "three", "two"]
    called = [one["id"] for message in last for one in message.get("tool_calls") or ()]
    assert sorted(called) == sorted(message["tool_call_id"] for message in last if message["role"] == "tool")
