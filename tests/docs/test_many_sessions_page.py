"""The page on many sessions: its script and its commands, with real worktrees and a scripted model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "many-sessions.md"


@pytest.mark.slow
def test_each_session_gets_a_worktree_that_is_removed_afterwards(tmp_path: Path, model_server: Any) -> None:
    from codex_framework.testing import call, say

    text = PAGE.read_text()
    (tmp_path / "make_worktrees.py").write_text(
        re.findall(r"```python title=\"make_worktrees.py\"\n(.*?)```", text, re.S)[0]
    )
    commands = [line[2:] for line in re.findall(r"^\$ .*", text, re.M)]
    home, repository = tmp_path / "home", tmp_path / "repository"
    home.mkdir()
    repository.mkdir()
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    (repository / "file.txt").write_text("old\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    (tmp_path / "prompts.txt").write_text("Say one.\nSay two.\n")

    def answer(request: Any) -> Any:
        done = request.json["input"][-1]["type"] == "function_call_output"
        return say("done") if done else call("exec_command", cmd="echo new > file.txt")

    server = model_server([answer], repeat_last=True)
    (home / "config.toml").write_text(
        'model = "gpt-5.5"\nmodel_provider = "local"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
        f"[model_providers.local]\nbase_url = {json.dumps(server.url)}\n"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "CODEX_HOME": str(home)}
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
    rows = [json.loads(line) for line in (tmp_path / "rows.results.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows[1:]] == ["completed"] * 2
    assert "+new" in (tmp_path / "00001.patch").read_text()
    assert list((tmp_path / "trees").iterdir()) == []
    assert (repository / "file.txt").read_text() == "old\n"
