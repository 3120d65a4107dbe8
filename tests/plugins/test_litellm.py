"""A gateway that others wrote: LiteLLM's proxy, in front of a server with the Chat Completions API.

LiteLLM makes Responses and Messages out of it itself. It is installed in the folder ``litellm`` of ``CODEX_MODEL_SERVERS``
(``python -m venv litellm; litellm/bin/pip install 'litellm[proxy]'``).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import CHAT, ModelServer, call, fault, say

PROGRAM = Path(os.environ.get("CODEX_MODEL_SERVERS") or "/nowhere") / "litellm/bin/litellm"
KEY = "sk-test-0123456789abcdef"
START_S = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.exists(), reason="CODEX_MODEL_SERVERS names no folder with LiteLLM in `litellm`"),
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The URL of a running gateway, and the port at which it expects the server behind it."""
    folder = tmp_path_factory.mktemp("litellm")
    port, behind = free_port(), free_port()
    upstream = {"model": "custom_openai/up", "api_base": f"http://127.0.0.1:{behind}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": "up", "litellm_params": upstream}],
        "general_settings": {"master_key": KEY},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))
    env = {**os.environ, "HOME": str(folder), "LITELLM_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [str(PROGRAM), "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=folder) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "log")
            yield f"http://127.0.0.1:{port}/v1", behind
        finally:
            process.terminate()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # a server on loopback
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    pytest.fail(f"LiteLLM did not start: {log.read_text()[-2000:]}")


def config(url: str, wire: str) -> str:
    return (
        'model = "up"\nmodel_provider = "real"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[model_providers.real]\nbase_url = "{url}"\nwire_api = "{wire}"\nenv_key = "GATEWAY_KEY"\n'
    )


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_tool_loop_of_several_turns_completes(
    make_kernel: Any, workspace: Path, gateway: tuple[str, int], wire: str
) -> None:
    url, behind = gateway
    replies = [
        call("exec_command", cmd="echo one >> log"),
        say("Now two.", deltas=3)
        + call("exec_command", cmd="echo two >> log")
        + call("exec_command", cmd="echo 2 >> log"),
        say("Three lines.", deltas=4),
        fault(500, body={"error": {"message": "Not now."}}),
        call("exec_command", cmd="echo three >> log"),
        say("Four lines.", deltas=4),
    ]

    async def run() -> list[Any]:
        async with make_kernel(config=config(url, wire), env={"GATEWAY_KEY": KEY}) as kernel:
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
    assert len(called) == 4
