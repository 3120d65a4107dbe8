"""Texts of others in the output of commands: none can control the terminal, or is shown in another order than it is read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.forked import RunProgram

EVIL = "a\x1b[31mb\rc\u202ed\x9b2Je\u2028f\ud800g\x07h"
SESSION = "0199a213-0000-7000-8000-000000000001"

_SERVER = """
import json, sys
EVIL = json.loads(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"]
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": EVIL, "version": EVIL},
        }
    elif method == "tools/list":
        result = {"tools": [{"name": "x", "title": EVIL, "description": EVIL, "inputSchema": {"type": "object"}}]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "file:///x", "name": EVIL, "description": EVIL}]}
    elif method == "prompts/list":
        result = {"prompts": [{"name": EVIL, "description": EVIL}]}
    elif method == "tools/call":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -1, "message": EVIL}}), flush=True)
        continue
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all texts that others write can control a terminal."""
    home = tmp_path_factory.mktemp("home")
    (home / "server.py").write_text(_SERVER)
    (home / "catalog.json").write_text(
        json.dumps({"models": [{"slug": "evil", "display_name": EVIL, "description": EVIL}]})
    )
    text = json.dumps(EVIL.replace("\ud800", ""))  # valid in TOML, too
    (home / "config.toml").write_text(
        f"""
model_catalog_json = {json.dumps(str(home / "catalog.json"))}
[mcp_servers.evil]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(home / "server.py"))}, {json.dumps(json.dumps(EVIL))}]
cwd = {json.dumps(str(home))}
[mcp_servers.broken]
command = {text}
args = [{text}]
cwd = {text}
[mcp_servers.http]
url = "http://127.0.0.1:9/x"
bearer_token_env_var = {text}
"""
    )
    for folder, name in (("prompts", "evil.md"), ("skills/evil", "SKILL.md")):
        (home / folder).mkdir(parents=True)
        (home / folder / name).write_text(f"---\nname: evil\ndescription: {text}\nargument-hint: {text}\n---\nText\n")
    (home / "rules").mkdir()
    (home / "rules" / "default.rules").write_text(f"prefix_rule({text}")
    (home / "with_hooks").mkdir()
    (home / "with_hooks" / "hooks.json").write_text(
        json.dumps(
            {
                "hooks": {
                    "PreToolUse": [{"matcher": EVIL.replace("[", ""), "hooks": [{"type": "command", "command": "x"}]}]
                }
            }
        )
    )
    (home / "history.jsonl").write_text(json.dumps({"session_id": EVIL, "ts": 1, "text": EVIL}) + "\n")
    (home / "session_index.jsonl").write_text(
        json.dumps({"id": SESSION, "thread_name": EVIL, "updated_at": "2026-11-28T12:00:00Z"}) + "\n"
    )
    sessions = home / "sessions" / "2026" / "11" / "28"
    sessions.mkdir(parents=True)
    lines = [
        ("session_meta", {
            "id": SESSION, "timestamp": "2026-11-28T12:00:00Z", "cwd": f"/{EVIL}", "originator": EVIL,
            "cli_version": EVIL, "source": "exec", "model_provider": EVIL, "git": {"branch": EVIL},
        }),
        ("event_msg", {"type": "user_message", "message": EVIL}),
        ("turn_context", {"cwd": f"/{EVIL}", "model": EVIL, "approval_policy": "never",
                          "sandbox_policy": {"type": "read-only"}, "summary": "auto"}),
        ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": EVIL}]}),
        ("response_item", {"type": "function_call", "name": EVIL, "arguments": EVIL, "call_id": EVIL}),
        ("response_item", {"type": "function_call_output", "call_id": EVIL, "output": EVIL}),
        ("event_msg", {"type": "agent_message", "message": EVIL}),
        ("event_msg", {"type": "token_count", "info": {
            "total_token_usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1,
                                  "reasoning_output_tokens": 0, "total_tokens": 2},
            "last_token_usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1,
                                 "reasoning_output_tokens": 0, "total_tokens": 2}}}),
    ]  # fmt: skip
    file = sessions / f"rollout-2026-11-28T12-00-00-{SESSION}.jsonl"
    file.write_text(
        "".join(
            json.dumps({"timestamp": "2026-11-28T12:00:00Z", "type": kind, "payload": payload}) + "\n"
            for kind, payload in lines
        )
        + "damaged\n"
    )
    return home


@pytest.mark.parametrize(
    "command",
    [
        "sessions list",
        "sessions search a",
        f"sessions show {SESSION}",
        "sessions check",
        f"why {SESSION}",
        f"why {SESSION} 1",
        "usage",
        "usage --by model",
        "usage --by project",
        "usage --by tool",
        "history",
        "mcp list",
        "mcp get evil",
        "mcp get broken",
        "mcp tools",
        "mcp resources",
        "mcp prompts",
        "mcp call --yes evil x",
        "models",
        "models --all",
        "models evil",
        "skills list",
        "prompts list",
        "hooks list",
        "execpolicy check ls",
        "debug prompt hello",
    ],
)
def test_no_text_of_others_controls_the_terminal(
    home: Path, command: str, tmp_path: Path, run_program: RunProgram
) -> None:
    used = home / "with_hooks" if command == "hooks list" else home  # untrusted hooks stop most commands
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CODEX_HOME": str(used),
        "PYTHONIOENCODING": "utf-8:surrogateescape",
    }
    done = run_program(*command.split(), cwd=tmp_path, env=env)
    shown = done.stdout + done.stderr
    assert "Traceback" not in shown
    assert "bug in" not in shown
    assert [char for char in shown if not char.isprintable() and char not in "\n\t"] == []
