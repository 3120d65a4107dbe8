"""The client that the official conformance suite tests: it logs in, runs one turn that calls every tool, and ends.

The suite runs it as ``python client.py URL`` and names the scenario in ``MCP_CONFORMANCE_SCENARIO``; what the scenario hands to the
client, such as credentials, is JSON in ``MCP_CONFORMANCE_CONTEXT``. The model is a loopback server that calls every tool of the
server once. The browser is a request that follows redirects.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import FunctionCall
from codex_framework.testing import ResponsesServer, say
from codex_framework.testing.scripted import Reply

NAME = "conf"
ATTEMPTS = 3
"""Turns, each after a login: a server may demand further scopes in the first one."""

CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"


def main(url: str, scenario: str, context: Mapping[str, Any]) -> int:
    """Run a scenario and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        home = Path(folder)
        secrets = write_config(home, url, scenario, context)
        env = {**os.environ, **secrets, "CODEX_HOME": folder}
        if scenario.startswith("auth/") and not log_in(env):
            return 1
        for _ in range(ATTEMPTS):
            with ResponsesServer([call_every_tool, say("done")]) as model:
                code, output = run_turn(env, home, model.url, answers=scenario.startswith("elicitation"))
            if "mcp login" not in output or not log_in(env):
                return code
    return 1


def write_config(home: Path, url: str, scenario: str, context: Mapping[str, Any]) -> dict[str, str]:
    """Write the configuration. Returns the variables with the secrets that it names."""
    table: dict[str, Any] = {"url": url, "default_tools_approval_mode": "approve", "required": True}
    oauth, secrets = oauth_settings(scenario, context)
    lines = ['mcp_oauth_credentials_store = "file"', f"[mcp_servers.{NAME}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    if oauth:
        lines += [f"[mcp_servers.{NAME}.oauth]", *(f"{key} = {json.dumps(value)}" for key, value in oauth.items())]
    (home / "config.toml").write_text("\n".join(lines) + "\n")
    return secrets


def oauth_settings(scenario: str, context: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the table ``oauth`` for a scenario, and the variables that it names."""
    oauth: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    if scenario == "auth/basic-cimd":
        oauth["client_id"] = CLIENT_DOCUMENT
    if "client_id" in context:
        oauth["client_id"] = context["client_id"]
    for key, name in (
        ("client_secret", "client_secret"),
        ("private_key_pem", "private_key"),
        ("idp_id_token", "identity_token"),
    ):
        if key in context:
            variable = f"CONFORMANCE_{name.upper()}"
            oauth[f"{name}_env_var"], secrets[variable] = variable, context[key]
    if "signing_algorithm" in context:
        oauth["signing_algorithm"] = context["signing_algorithm"]
    if scenario.startswith("auth/client-credentials"):
        oauth["grant"] = "client_credentials"
    if "idp_token_endpoint" in context:
        oauth["grant"] = "identity_assertion"
        oauth["identity_endpoint"] = context["idp_token_endpoint"]
        oauth["identity_client_id"] = context["idp_client_id"]
    return oauth, secrets


def log_in(env: Mapping[str, str]) -> bool:
    """Run ``mcp login`` and play the browser. Returns whether it succeeded."""
    command = [sys.executable, "-m", "codex_framework", "mcp", "login", NAME]
    process = subprocess.Popen(command, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if address := re.search(r"https?://\S+[?&]response_type=code\S*", line):
            visit(address.group())
    return process.wait(timeout=30) == 0


def visit(address: str) -> None:
    """Open an address as a browser does."""
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            response.read()
    except urllib.error.URLError as error:
        print(f"browser: {error}", flush=True)


def run_turn(env: Mapping[str, str], home: Path, model_url: str, *, answers: bool) -> tuple[int, str]:
    """Run ``exec``, or a program that answers questions of servers, and return the exit code and the output."""
    provider = f'{{ name = "loopback", base_url = "{model_url}", wire_api = "responses" }}'
    settings = ['model="gpt-5.5"', 'model_provider="loopback"', f"model_providers.loopback={provider}"]
    if answers:
        command = [sys.executable, "-P", str(Path(__file__).with_name("answering.py")), str(home), *settings]
    else:
        command = [sys.executable, "-m", "codex_framework", "exec", "--skip-git-repo-check", "-C", str(home)]
        command += [word for setting in (*settings, 'approval_policy="never"') for word in ("-c", setting)]
        command += ["--json", "Call every tool."]
    done = subprocess.run(
        command, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False
    )
    print(done.stdout, done.stderr, sep="", flush=True)
    return done.returncode, done.stdout + done.stderr


def call_every_tool(request: Any) -> Reply:
    """Answer the first request: call each tool of the server once."""
    calls = [
        FunctionCall(name=name, arguments=json.dumps(example(schema)), call_id=f"call-{number}", namespace=namespace)
        for number, (namespace, name, schema) in enumerate(tools_of(request.json["tools"]))
    ]
    return Reply(items=tuple(calls)) if calls else say("there are no tools")


def tools_of(tools: Any) -> list[tuple[str | None, str, Any]]:
    """Return namespace, name and schema of the server's tools."""
    prefix = f"mcp__{NAME}"
    flat = [
        (None, each["name"], each.get("parameters")) for each in tools if each.get("name", "").startswith(f"{prefix}__")
    ]
    spaces = [each for each in tools if each.get("type") == "namespace" and each["name"].rstrip("_") == prefix]
    return flat + [(each["name"], tool["name"], tool.get("parameters")) for each in spaces for tool in each["tools"]]


def example(schema: Any) -> dict[str, Any]:
    """Return arguments that a schema accepts: a value for each property."""
    values: dict[str, Any] = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}
    properties = (schema or {}).get("properties") or {}
    return {name: values.get(each.get("type"), "text") for name, each in properties.items()}


if __name__ == "__main__":
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    raise SystemExit(main(sys.argv[-1], os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), given))
