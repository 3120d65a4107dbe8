"""The same file for Codex 0.169 and this program: what they start with, what they say, and what they refuse.

Both run in a namespace with a folder ``/etc`` of the test's own, so that the real path is read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.testing import ResponsesServer, say

pytestmark = pytest.mark.slow

POLICIES = 'allowed_approval_policies = ["on-request", "untrusted"]\n'
MODES = 'allowed_sandbox_modes = ["read-only", "workspace-write"]\n'
BYPASS = "--dangerously-bypass-approvals-and-sandbox"
PROVIDER = 'model_provider = "m"\n[model_providers.m]\nname = "m"\nbase_url = "{}"\nrequest_max_retries = 0\n'

CASES = [
    (POLICIES, "", []),
    (POLICIES + MODES, "", ["-s", "danger-full-access"]),
    (POLICIES + MODES, "", [BYPASS]),
    (POLICIES + MODES, 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n', []),
    ('allowed_sandbox_modes = ["read-only"]', "", ["-s", "workspace-write"]),
    ('allowed_sandbox_modes = ["read-only", "external-sandbox"]', "", ["-s", "workspace-write"]),
    ('allowed_approval_policies = ["on-failure"]', "", []),
    ('allowed_approvals_reviewers = ["user"]', 'approvals_reviewer = "auto_review"\n', []),
    ('allowed_web_search_modes = ["cached"]', 'web_search = "live"\n', []),
    ("allowed_web_search_modes = []", 'web_search = "live"\n', []),
    (
        '[[remote_sandbox_config]]\nhostname_patterns = ["*"]\nallowed_sandbox_modes = ["read-only"]\n',
        "",
        ["-s", "workspace-write"],
    ),
]
REFUSED = [
    (MODES, "", [BYPASS]),
    (MODES, 'sandbox_mode = "danger-full-access"\n', []),
    ("allowed_approval_policies = [", "", []),
    ("allowed_approval_policies = []", "", []),
    ('allowed_approval_policies = ["sometimes"]', "", []),
    ('allowed_approval_policies = ["granular"]', "", []),
    ('allowed_sandbox_modes = ["workspace-write"]', "", []),
    ('enforce_residency = "eu"', "", []),
]


@pytest.fixture
def both(tmp_path, codex_binary: str):
    """Return a function that runs both programs and returns what they print."""
    etc, home = tmp_path / "etc", tmp_path / "home"
    (etc / "codex").mkdir(parents=True)
    (home / ".codex").mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "nsswitch.conf"):
        if (source := Path("/etc", name)).exists():
            (etc / name).write_bytes(source.read_bytes())
    inside = ["unshare", "-rm", "sh", "-c", f'mount --bind "{etc}" /etc && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces with mounts here")

    def ran(server, program, text, config, arguments):
        (etc / "codex" / "requirements.toml").write_text(text)
        (home / ".codex" / "config.toml").write_text(config + PROVIDER.format(server.url))
        environ = {"HOME": str(home), "CODEX_HOME": str(home / ".codex"), "PATH": os.environ["PATH"]}
        argv = [*inside, *program, "exec", "--skip-git-repo-check", *arguments, "hello"]
        return subprocess.run(
            argv,
            env=environ,
            cwd=home,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def asked(*case):
        with ResponsesServer([say("Done.")], repeat_last=True) as server:
            return [
                ran(server, program, *case) for program in ([codex_binary], [sys.executable, "-m", "codex_framework"])
            ]

    return asked


def told(done):
    """Return the settings of the banner, and the warnings about requirements, each once."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr).splitlines()
    values = sorted({line.partition(" [")[0] for line in lines if line.startswith(("approval:", "sandbox:"))})
    warnings = {line for line in lines if line.startswith("warning: Configured value")}
    return values, {re.sub(r"(required value )Managed \{.*\}\.", r"\1ReadOnly.", line) for line in warnings}


@pytest.mark.parametrize(("text", "config", "arguments"), CASES)
def test_values_are_replaced_as_in_codex(both, text, config, arguments):
    codex, here = (told(done) for done in both(text, config, arguments))
    assert here == codex
    assert here[0]


@pytest.mark.parametrize(("text", "config", "arguments"), REFUSED)
def test_what_codex_refuses_is_refused(both, text, config, arguments):
    for done in both(text, config, arguments):
        assert done.returncode == 1
        assert "session id" not in done.stderr
        assert "requirements" in done.stderr or "cannot be empty" in done.stderr
