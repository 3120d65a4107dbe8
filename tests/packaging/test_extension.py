"""The plugin of ``docs/extend/extend-a-thread.md``, installed from its own wheel, extends threads. The kernel stays as it is."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import Reply, ResponsesServer, call, fault, say

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "extend-a-thread.md"
BLOCKS = dict(re.findall(r"^```(python as \S+|toml)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))
PLUGIN = BLOCKS["python as acme_tickets.py"]
PROGRAM = BLOCKS["python as use_tickets.py"]
OVERFLOW = fault(400, body={"error": {"code": "context_length_exceeded", "message": "Too long."}})
BOARD = "<external_tickets>\n{}\n</external_tickets>"


def ticket(title: str, *, urgent: bool = False) -> Reply:
    """What the agent answers."""
    return say(json.dumps({"title": title, "urgent": urgent}))


def outputs(body: dict[str, Any]) -> list[str]:
    return [item["output"] for item in body["input"] if item["type"] == "function_call_output"]


def said(body: dict[str, Any]) -> list[str]:
    return [
        part["text"]
        for item in body["input"]
        if item["type"] == "message" and item["role"] == "user"
        for part in item["content"]
    ]


class Installed:
    """An environment with the kernel and the plugin, both from their wheels."""

    def __init__(self, venv: Any, folder: Path) -> None:
        self._venv = venv
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()

    def fingerprints(self) -> dict[str, str]:
        """Those of the installed files of the kernel's distribution."""
        (site,) = self._venv.folder.glob("lib/python3*/site-packages")
        files = [*site.glob("codex_framework*/**/*"), *site.glob("codex_plugin_*/**/*")]
        return {
            str(file.relative_to(site)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
            if file.is_file() and "__pycache__" not in file.parts
        }

    def run(self, replies: Sequence[Reply], *command: str) -> tuple[str, list[dict[str, Any]]]:
        """Run a command with a model on loopback; what it printed, and the bodies of its requests."""
        with ResponsesServer(replies) as server:
            (self.home / "config.toml").write_text(
                'model = "gpt-5.5"\nmodel_provider = "loopback"\n\n'
                "[framework]\ncompactor = 'last_words'\n\n"
                f'[model_providers.loopback]\nname = "Loopback"\nbase_url = "{server.url}"\nrequest_max_retries = 0\n'
            )
            env = {"CODEX_HOME": str(self.home), "HOME": str(self.home), "PATH": "/usr/bin:/bin"}
            program, *arguments = command
            done = subprocess.run(
                [self._venv.programs / program, *arguments],
                cwd=self.work,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        assert done.returncode == 0, done.stderr
        return done.stdout, [request.json for request in server.requests if request.method == "POST"]


@pytest.fixture
def installed(kernel_wheel, wheel_builder, fresh_venv, tmp_path):
    source = tmp_path / "acme-tickets"
    source.mkdir()
    (source / "acme_tickets.py").write_text(PLUGIN, encoding="utf-8")
    (source / "pyproject.toml").write_text(BLOCKS["toml"], encoding="utf-8")
    venv = fresh_venv(kernel_wheel)
    wheel = wheel_builder(source, tmp_path / "dist")
    made = Installed(venv, tmp_path)
    before = made.fingerprints()
    done = venv.pip("install", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    yield made
    assert made.fingerprints() == before != {}, "nothing of the kernel was changed"


def test_the_plugin_has_at_most_sixty_lines():
    assert len([line for line in PLUGIN.splitlines() if line.strip()]) <= 60


@pytest.mark.slow
def test_it_works_in_exec_and_from_a_program(installed):
    listed, _ = installed.run([], "codex-framework", "plugins", "--json")
    reports = json.loads(listed)
    (report,) = (
        one for one in (reports["plugins"] if isinstance(reports, dict) else reports) if one["name"] == "tickets"
    )
    assert (report["status"], report["problems"]) == ("loaded", [])
    assert report["contributes"] == {
        "agents": ["triage"],
        "components": ["tickets"],
        "compactors": ["last_words"],
        "ops": ["acme_show_tickets"],
    }

    # In `exec`: the tool of the thread, the agent, the request that nobody answers, the task beside the turn, the compactor.
    replies = [
        call("report", text="nobody can log in"),
        ticket("Login is broken"),
        call("report", text="the disk is full"),
        ticket("Disk is full", urgent=True),
        OVERFLOW,
        say("Reported."),
    ]
    printed, asked = installed.run(replies, "codex-framework", "exec", "--skip-git-repo-check", "Report.")
    assert printed == "Reported.\n"
    first, triage, second, _, full, last = asked
    assert "report" in [tool.get("name") for tool in first["tools"]]
    assert triage["text"]["format"]["schema"]["required"] == ["title", "urgent"]
    assert (triage["instructions"], said(triage), triage.get("tools") or []) == (
        "Write a ticket.",
        ["nobody can log in"],
        [],
    )
    assert outputs(second) == ["Filed: Login is broken"]
    assert said(second)[-1] == BOARD.format("Login is broken")
    assert outputs(full) == ["Filed: Login is broken", "The ticket was not confirmed."]
    assert len(last["input"]) < len(full["input"])
    assert "Report." not in said(last)
    assert outputs(last)[-1] == "The ticket was not confirmed."

    # From a program: the agent by its name and its typed output, an answer to the request, both ops.
    replies = [
        ticket("Login is broken", urgent=True),
        call("report", text="nobody can log in"),
        ticket("Login is broken", urgent=True),
        say("Reported."),
    ]
    (installed.work / "use_tickets.py").write_text(PROGRAM, encoding="utf-8")
    printed, asked = installed.run(replies, "python", "-W", "error", "use_tickets.py")
    assert printed.splitlines() == ["ticket: Login is broken (urgent)", "show: 1 tickets", "compact: completed 4"]
    assert outputs(asked[3]) == ["Filed: Login is broken"]
    assert said(asked[3])[-1] == BOARD.format("Login is broken")
