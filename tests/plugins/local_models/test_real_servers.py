"""A server that others wrote: aimock of npm, in the folder ``CODEX_MODEL_SERVERS`` (``npm install @copilotkit/aimock``)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CODEX_MODEL_SERVERS") or "/nowhere")
PROGRAM = FOLDER / "node_modules/@copilotkit/aimock/dist/cli.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PROGRAM.exists() or shutil.which("node") is None,
        reason="CODEX_MODEL_SERVERS names no folder with @copilotkit/aimock, or there is no node",
    ),
]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": [{"match": {"userMessage": "hi"}, "response": {"content": "Hello."}}]}))
    command = ["node", str(PROGRAM), "-p", "0", "-f", str(fixtures), "--log-level", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            found = next(match for line in server.stdout if (match := re.search(r"http://[^\s:]+:(\d+)", line)))
            yield found[1]
        finally:
            server.terminate()


@pytest.mark.parametrize("provider", ["ollama", "lmstudio"])
def test_a_model_of_aimock_is_found_and_answers(provider: str, port: str, codex_home: Path, tmp_path: Path) -> None:
    def run(model: str) -> subprocess.CompletedProcess[str]:
        words = ["exec", "--skip-git-repo-check", "--oss", "--local-provider", provider, "-m", model, "hi"]
        return subprocess.run(
            [sys.executable, "-m", "codex_framework", *words],
            cwd=tmp_path,
            env={
                "CODEX_HOME": str(codex_home),
                "HOME": str(codex_home),
                "PATH": "/usr/bin:/bin",
                "CODEX_OSS_PORT": port,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run("gpt-4o")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    missing = run("no-such-model")
    assert missing.returncode == 1
    assert "Not found" in missing.stderr if provider == "ollama" else "lms" in missing.stderr
