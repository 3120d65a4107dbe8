"""``codex-framework mcp login|logout``, as processes, and how ``list`` and ``add`` say that a server requires a login."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.forked import RunProgram
from tests.plugins.mcp.oauth_server import AuthorizationServer, ProtectedServer, browse


@attrs.frozen
class Stage:
    authorization: AuthorizationServer
    mcp: ProtectedServer
    home: Path
    run_program: RunProgram

    @property
    def env(self) -> dict[str, str]:
        without = ("DISPLAY", "WAYLAND_DISPLAY")
        return {
            **{name: value for name, value in os.environ.items() if name not in without},
            "CODEX_HOME": str(self.home),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "codex_framework", "mcp", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(argv, env=self.env, text=True, cwd=self.home, **pipes)

    def run(self, *words: str) -> tuple[int, str]:
        done = self.run_program("mcp", *words, cwd=self.home, env=self.env)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def stage(tmp_path: Path, run_program: RunProgram) -> Iterator[Stage]:
    with AuthorizationServer() as authorization, ProtectedServer(authorization) as mcp:
        settings = f'mcp_oauth_credentials_store = "file"\n[mcp_servers.s]\nurl = "{mcp.url}"\n'
        (tmp_path / "config.toml").write_text(settings)
        yield Stage(authorization, mcp, tmp_path, run_program)


def test_login_list_and_logout(stage: Stage) -> None:
    def status() -> str:
        code, output = stage.run("list", "--json")
        assert code == 0, output
        return str(json.loads(output)[0]["auth_status"])

    assert status() == "not_logged_in"
    process = stage.start("login", "s", "--scopes", "a,b")
    assert process.stdout is not None
    with process.stdout:
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if re.match(r"http://127\.0\.0\.1:\d+/authorize\?", line):
                browse(line.strip())
    assert process.wait(timeout=30) == 0
    assert lines[0] == "Authorize `s` by opening this URL in your browser:"
    assert lines[-1] == "Successfully logged in to MCP server 's'."
    assert stage.authorization.seen("GET")[-1].query["scope"] == "a b"
    assert status() == "o_auth"
    assert stage.run("logout", "s") == (0, "Removed OAuth credentials for 's'.\n")
    assert stage.run("logout", "s") == (0, "No OAuth credentials stored for 's'.\n")
    assert stage.run("add", "t", "--url", stage.mcp.url)[1].endswith("Run `codex-framework mcp login t`.\n")


@pytest.mark.thorough
def test_a_login_that_fails_is_one_line_with_a_hint(stage: Stage) -> None:
    stage.authorization.metadata = {"registration_endpoint": None}
    code, output = stage.run("login", "s")
    assert code == 1
    assert "does not register clients" in output
    assert "oauth.client_id" in output
    assert "Traceback" not in output
    code, output = stage.run("login", "other")
    assert code == 1
    assert "No MCP server named 'other' found." in output


def test_a_login_without_a_browser_and_with_a_document_that_there_is_not(stage: Stage) -> None:
    process = stage.start("login", "s", "--no-browser", "--oauth-client-registration", "DCR")
    assert process.stdout is not None
    address = next(word for line in process.stdout for word in line.split() if word.startswith("http"))
    browse(address)
    assert "Successfully logged in" in process.communicate(timeout=60)[0]
    status, output = stage.run("login", "s", "--oauth-client-registration", "cimd")
    assert (status, "reads no document of a client" in output) == (1, True)
    status, output = stage.run("login", "s", "--oauth-client-registration", "other")
    assert status == 2
