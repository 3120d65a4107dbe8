"""The template plugin, installed from a wheel of its own, is there for the model; nothing of the kernel is touched."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ResponsesServer, call, say

TEMPLATE = Path(__file__).parents[2] / "contrib" / "codex_contrib_template"


def fingerprints(site: Path) -> dict[str, str]:
    """Of every installed file of the kernel's distribution."""
    files = [*site.glob("codex_framework*/**/*"), *site.glob("codex_plugin_*/**/*")]
    return {
        str(file.relative_to(site)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
    }


def run_command(program: Path, *arguments: str | Path, home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {"CODEX_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=env, cwd=cwd, check=False, timeout=60
    )


def ask_for_words(program: Path, home: Path, workspace: Path) -> list[dict[str, Any]]:
    """Run ``exec`` with a model that calls the tool; the bodies of its requests."""
    with ResponsesServer([call("count_words", path="poem.txt"), say("Four.")]) as server:
        (home / "config.toml").write_text(
            f'model_provider = "loopback"\n\n[model_providers.loopback]\nname = "Loopback"\nbase_url = "{server.url}"\n'
        )
        done = run_command(program, "exec", "--skip-git-repo-check", "Count.", home=home, cwd=workspace)
        assert (done.returncode, done.stdout) == (0, "Four.\n"), done.stderr
    return [request.json for request in server.requests if request.method == "POST"]


def outputs(request: dict[str, Any]) -> list[str]:
    return [item["output"] for item in request["input"] if item["type"] == "function_call_output"]


def names(request: dict[str, Any]) -> list[str]:
    return [tool.get("name", tool["type"]) for tool in request["tools"]]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    (workspace / "poem.txt").write_text("roses are really red\n")
    return home, workspace


@pytest.mark.slow
def test_an_installed_plugin_is_there_for_the_model_and_a_removed_one_is_gone(
    kernel_wheel, wheel_builder, fresh_venv, folders, tmp_path
):
    """It takes seconds: an environment is made, and the command started seven times in it."""
    home, workspace = folders
    venv = fresh_venv(kernel_wheel)
    program = venv.programs / "codex-framework"
    (site,) = venv.folder.glob("lib/python3*/site-packages")
    before = fingerprints(site)
    assert before, "the kernel is installed"

    first, second = ask_for_words(program, home, workspace)
    assert "count_words" not in names(first)
    assert outputs(second) == ["unsupported call: count_words"]

    wheel = wheel_builder(TEMPLATE, tmp_path / "dist")
    assert venv.pip("install", "--no-deps", "--no-index", wheel).returncode == 0
    first, second = ask_for_words(program, home, workspace)
    assert "count_words" in names(first)
    assert outputs(second) == ["poem.txt has 4 words."]
    listed = run_command(program, "plugins", "--json", home=home, cwd=workspace)
    (report,) = [report for report in json.loads(listed.stdout) if report["name"] == "template"]
    assert (report["distribution"], report["status"]) == ("codex-contrib-template", "loaded")
    assert fingerprints(site) == before, "nothing of the kernel was changed"

    assert venv.pip("uninstall", "codex-contrib-template").returncode == 0
    first, _ = ask_for_words(program, home, workspace)
    assert "count_words" not in names(first)
