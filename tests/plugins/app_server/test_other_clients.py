"""Further clients from PyPI and npm, unmodified: each starts our command by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import say
from tests.plugins.app_server.installed import node_modules, python_with

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("codex-framework")


def _run(home: Any, argv: Sequence[object]) -> str:
    """Run a client that finds our command under the name ``codex``, and return what it prints."""
    folder = home.work.parent / "bin"
    folder.mkdir()
    (folder / "codex").symlink_to(PROGRAM)
    env = {
        **home.env,
        "PATH": f"{folder}:{home.env['PATH']}",
        "PROGRAM": str(PROGRAM),
        "CODEX_PATH": str(PROGRAM),
        "WORK": str(home.work),
        "MODEL_PROVIDER": "here",
    }
    ran = subprocess.run(
        [str(word) for word in argv],
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_codex_python_sdk(home: Any) -> None:
    home.serve(say("READY"), repeat_last=True)
    python = python_with("codex-python-sdk", "codex-python-sdk")
    text = _run(home, [python, "-m", "codex_python_sdk.examples.demo_smoke", "--mode", "demo"])
    failed = [line for line in text.splitlines() if line.startswith("[FAIL]")]
    assert [line.split(":")[0] for line in failed] == [
        "[FAIL] account_rate_limits_read",  # nobody is logged in
        "[FAIL] skills_config_write",  # it fails with the real program too
    ]
    assert "[PASS] responses_stream_text: READY" in text


def test_acpx(home: Any) -> None:
    home.serve(say("READY"), repeat_last=True)
    bridge = (
        node_modules("codex-acp", "@agentclientprotocol/codex-acp") / "@agentclientprotocol/codex-acp/dist/index.js"
    )
    acpx = node_modules("acpx", "acpx") / ".bin/acpx"
    options = ["--agent", f"node {bridge}", "--cwd", home.work, "--approve-all", "--format", "json"]
    rows = [json.loads(line) for line in _run(home, [acpx, *options, "exec", "hi"]).splitlines()]
    updates = [row["params"]["update"] for row in rows if row.get("method") == "session/update"]
    assert [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"] == ["READY"]
    assert rows[-1]["result"]["stopReason"] == "end_turn"


def test_ai_sdk_provider(home: Any) -> None:
    home.serve(say("READY"), repeat_last=True)
    modules = node_modules("ai-sdk-provider-codex-app-server", "ai-sdk-provider-codex-app-server", "zod")
    script = shutil.copy(Path(__file__).with_name("ai_sdk.mjs"), modules.parent / "ai_sdk.mjs")
    assert json.loads(_run(home, ["node", script])) == {
        "content": [{"type": "text", "text": "READY"}],
        "finish": "stop",
        "kinds": ["stream-start", "response-metadata", "text-start", "text-delta", "text-end", "finish"],
    }
