"""Codex's own ``exec --remote`` against this server, beside a run of Codex without it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import call, fault, say
from tests.plugins.app_server.test_sockets import started

SCENARIOS: dict[str, tuple[list[Any], int]] = {
    "an answer": ([say("Hello.")], 0),
    "a command": ([call("exec_command", cmd="echo hi"), say("Done.")], 0),
    "a command that fails": ([call("exec_command", cmd="echo no >&2; exit 3"), say("It failed.")], 0),
    "no answer": ([fault(400, body={"error": {"message": "It is refused."}})], 1),
}


def run_codex(home: Any, binary: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    words = [binary, "exec", *options, "--json", "--skip-git-repo-check", "Go."]
    env = {**home.env, "CODEX_HOME": str(folder)}
    return subprocess.run(words, cwd=home.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def shown(lines: str) -> list[Any]:
    """Return JSON lines without what differs between any two runs."""
    return [json.loads(re.sub(r'"thread_id":"[^"]+"', '"thread_id":"T"', line)) for line in lines.splitlines()]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_codex_prints_the_same_lines_as_without_a_server(
    home: Any, tmp_path: Path, codex_binary: str, scenario: str
) -> None:
    replies, status = SCENARIOS[scenario]
    home.serve(*replies)
    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        remote = run_codex(home, codex_binary, tmp_path / "client", "--remote", url)
    home.serve(*replies)
    (home.path / "config.toml").rename(home.path / "kept.toml")
    own = tmp_path / "own"
    own.mkdir()
    (home.path / "kept.toml").rename(own / "config.toml")
    local = run_codex(home, codex_binary, own)
    assert shown(remote.stdout) == shown(local.stdout), remote.stderr
    assert remote.returncode == local.returncode == status


def test_codex_resumes_a_thread_of_this_server(home: Any, tmp_path: Path, codex_binary: str) -> None:
    model = home.serve(say("One."), say("Two."))
    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        first = run_codex(home, codex_binary, tmp_path / "client", "--remote", url)
        thread = json.loads(first.stdout.splitlines()[0])["thread_id"]
        again = run_codex(home, codex_binary, tmp_path / "client", "--remote", url, "resume", thread)
    assert shown(again.stdout)[-2]["item"]["text"] == "Two.", again.stderr
    assert len(model.requests[1].json["input"]) > len(model.requests[0].json["input"])
