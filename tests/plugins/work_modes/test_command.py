"""``exec --work-mode``, and who may configure a mode."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codex_framework.testing import ResponsesServer, call, say
from tests.forked import RunProgram

CONFIG = """model = "gpt-5.5"
model_provider = "here"
sandbox_mode = "danger-full-access"
approval_policy = "never"
[projects."{work}"]
trust_level = "trusted"
[model_providers.here]
name = "here"
base_url = "{url}"
"""


@pytest.mark.parametrize(
    ("option", "project", "status", "made", "text"),
    [
        ((), "", 0, True, "done"),
        (("--work-mode", "plan"), "", 0, False, "done"),
        (("--work-mode", "plam"), "", 1, False, "there is no work mode 'plam'"),
        ((), '[framework.plugins.work_modes]\nmode = "build"', 1, False, "work_modes"),
    ],
)
def test_an_option_chooses_the_mode_and_a_project_cannot(
    tmp_path: Path,
    responses_server: Callable[..., ResponsesServer],
    run_program: RunProgram,
    option: tuple[str, ...],
    project: str,
    status: int,
    made: bool,
    text: str,
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".git" / "objects").mkdir(parents=True)
    (work / ".codex").mkdir()
    home.mkdir()
    (work / ".codex" / "config.toml").write_text(project)
    server = responses_server([call("exec_command", cmd="touch made", login=False), say("done")])
    (home / "config.toml").write_text(CONFIG.format(work=work, url=server.url))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CODEX_", "OPENAI_"))}
    env = {**kept, "CODEX_HOME": str(home), "HOME": str(tmp_path), "NO_COLOR": "1"}
    ran = run_program("exec", *option, "go", cwd=work, env=env)
    assert ran.returncode == status, ran.stderr
    assert (work / "made").exists() == made
    assert text in ran.stdout + ran.stderr
