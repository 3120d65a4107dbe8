"""The same requests to Codex's own server and to ours, with the same files: the responses are the same."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

MORE = """
openai_base_url = "https://o/v1"
[features]
memories = true
network_proxy = { enabled = true }
[skills]
config = [{ name = "other", enabled = false }]
[model_providers.bearer]
name = "Bearer"
base_url = "https://x/v1"
experimental_bearer_token = "secret"
[model_providers.command]
name = "Command"
base_url = "https://x/v1"
auth = { command = "print-token" }
[model_providers.both]
name = "Both"
base_url = "https://x/v1"
env_key = "KEY"
http_headers = { A = "secret" }
[model_providers.corp]
name = "Corp"
base_url = "https://x/v1"
env_key = "KEY"
[model_providers.nowhere]
name = "Nowhere"
[model_providers.query]
name = "Query"
base_url = "https://x/v1?key=secret"
[model_providers.user]
name = "User"
base_url = "https://u:secret@x/v1"
[[hooks.PreToolUse]]
matcher = "Bash"
hooks = [{ type = "command", command = "true", timeout = 5, statusMessage = "Checking" }]
[[hooks.SessionEnd]]
hooks = [{ type = "command", command = "echo bye" }]
"""

UNKNOWN = "01a1fa0c-f086-7081-ba8f-1814fcb07c0d"

Request = tuple[str, Any]

REQUESTS: list[Request] = [
    ("hooks/list", {}),
    ("hooks/list", {"cwds": ["WORK", "/"]}),
    ("hooks/list", {"cwds": []}),
    ("hooks/list", {"threadId": UNKNOWN}),
    ("hooks/list", {"threadId": "x"}),
    ("hooks/list", {"threadId": UNKNOWN, "cwds": ["/"]}),
    ("hooks/list", {"cwds": "/"}),
    ("hooks/list", None),
    ("experimentalFeature/list", {}),
    ("experimentalFeature/list", {"cursor": "x"}),
    ("experimentalFeature/list", {"cursor": "999"}),
    ("experimentalFeature/list", {"limit": -1}),
    ("experimentalFeature/list", {"limit": 4294967296}),
    ("experimentalFeature/list", {"limit": 1.0}),
    ("experimentalFeature/list", {"threadId": UNKNOWN}),
    ("experimentalFeature/enablement/set", {"enablement": {"mcp_2026_07_28": True, "memories": False, "goals": False}}),
    ("experimentalFeature/enablement/set", {"enablement": {"no_such": True}}),
    ("experimentalFeature/enablement/set", {"enablement": {}}),
    ("experimentalFeature/enablement/set", {"enablement": {"memories": "on"}}),
    ("experimentalFeature/enablement/set", {}),
    ("experimentalFeature/list", {}),
    ("modelProvider/list", {}),
    ("modelProvider/list", None),
    ("modelProvider/capabilities/read", {}),
    ("collaborationMode/list", {}),
    ("skills/config/write", {"path": "/x/../y/SKILL.md", "enabled": False}),
    ("skills/config/write", {"path": "/y/SKILL.md", "enabled": False}),
    ("skills/config/write", {"name": " a ", "enabled": False}),
    ("skills/config/write", {"name": "other", "enabled": True}),
    ("skills/config/write", {"name": "never", "enabled": True}),
    ("skills/config/write", {"name": "", "enabled": True}),
    ("skills/config/write", {"enabled": True}),
    ("skills/config/write", {"name": "a", "path": "/x", "enabled": True}),
    ("skills/config/write", {"path": "x/SKILL.md", "enabled": True}),
    ("skills/config/write", {"name": "a"}),
    ("skills/extraRoots/set", {"extraRoots": ["WORK/more"]}),
    ("skills/list", {"cwds": ["WORK"]}),
    ("skills/extraRoots/set", {"extraRoots": []}),
    ("skills/list", {"cwds": ["WORK"]}),
    ("skills/extraRoots/set", {"extraRoots": ["more"]}),
    ("skills/extraRoots/set", {"extraRoots": [5]}),
    ("skills/extraRoots/set", {}),
    ("configRequirements/read", None),
    ("configRequirements/read", {"x": 1}),
    ("thread/memoryMode/set", {"threadId": UNKNOWN, "mode": "disabled"}),
    ("thread/memoryMode/set", {"threadId": "x", "mode": "disabled"}),
    ("thread/memoryMode/set", {"threadId": UNKNOWN, "mode": "polluted"}),
    ("thread/memoryMode/set", {"mode": "disabled"}),
    ("account/read", {}),
    ("account/rateLimits/read", {}),
    ("account/login/cancel", {"loginId": "x"}),
    ("account/login/cancel", {"loginId": UNKNOWN}),
    ("account/login/cancel", {}),
    ("account/login/start", {"type": "chatGPT"}),
    ("account/login/start", {"type": "apiKey"}),
    ("account/login/start", {}),
    ("getAuthStatus", {}),
    ("getAuthStatus", {"includeToken": 5}),
    ("getAuthStatus", None),
    ("account/login/start", {"type": "apiKey", "apiKey": "sk-test"}),
    ("getAuthStatus", {"includeToken": True}),
    ("account/rateLimits/read", None),
    ("account/logout", None),
    ("gitDiffToRemote", {}),
    ("getConversationSummary", {}),
    ("getUserAgent", None),
    ("newConversation", {}),
    ("sendUserTurn", {}),
]


async def ask_codex(program: str, home: Any, requests: Sequence[Request]) -> list[Any]:
    """Return the responses of the real server."""
    process = await asyncio.create_subprocess_exec(
        program,
        "app-server",
        cwd=home.work,
        env=home.env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 26,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        hello = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {"experimentalApi": True}}
        found = []
        for number, (method, params) in enumerate([("initialize", hello), *requests]):
            sent = {"id": number, "method": method, **({} if params is None else {"params": params})}
            process.stdin.write(json.dumps(sent).encode() + b"\n")
            while True:
                message = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
                if message.get("id") == number and "method" not in message:
                    found.append(message)
                    break
        return found[1:]
    finally:
        process.terminate()
        await process.wait()


async def ask_ours(connected: Callable[..., Any], requests: Sequence[Request]) -> list[Any]:
    async with connected(experimentalApi=True) as client:
        found = []
        for number, (method, params) in enumerate(requests, 1000):
            client._methods[number] = method
            client.write({"id": number, "method": method, **({} if params is None else {"params": params})})
            found.append(await client.response(number))
        return found


def plain(response: dict[str, Any]) -> Any:
    """Return what is compared: lists of named things in the order of their names, and skills without those that Codex installs."""
    if "error" in response:
        return {key: response["error"][key] for key in ("code", "message")}
    result = response["result"]
    if not isinstance(result.get("data"), list):
        return result
    for entry in result["data"]:
        if "skills" in entry:
            entry["skills"] = [skill for skill in entry["skills"] if skill["scope"] != "system"]
    key = next((key for key in ("id", "name") if all(key in entry for entry in result["data"])), None)
    return {**result, "data": sorted(result["data"], key=lambda entry: entry[key]) if key else result["data"]}


def test_the_responses_are_those_of_codex(home: Any, connected: Callable[..., Any], codex_binary: str) -> None:
    home.serve(more=MORE)
    file = home.path / "config.toml"
    state = "".join(
        f'[hooks.state."{file}:{event}:0:0"]\ntrusted_hash = "{digest}"\n'
        for event, digest in asyncio.run(hook_hashes(codex_binary, home))
    )
    file.write_text(file.read_text() + state)
    skill = home.work / "more" / "extra" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: extra\ndescription: d\n---\nhi\n")
    before = file.read_bytes()
    requests = [json.loads(json.dumps(each).replace("WORK", str(home.work))) for each in REQUESTS]

    theirs = asyncio.run(ask_codex(codex_binary, home, requests))
    written = tomllib.loads(file.read_text())
    (home.path / "auth.json").unlink(missing_ok=True)
    file.write_bytes(before)
    ours = asyncio.run(ask_ours(connected, requests))

    different = [
        (request, plain(their), plain(our))
        for request, their, our in zip(requests, theirs, ours, strict=True)
        if plain(their) != plain(our) and plain(our).get("code") != -32601
    ]
    assert different == []
    unsupported = [request[0] for request, our in zip(requests, ours, strict=True) if plain(our).get("code") == -32601]
    assert unsupported == []
    assert tomllib.loads(file.read_text()) == written


async def hook_hashes(program: str, home: Any) -> list[tuple[str, str]]:
    (response,) = await ask_codex(program, home, [("hooks/list", {})])
    hooks = response["result"]["data"][0]["hooks"]
    return [(hook["key"].split(":")[1], hook["currentHash"]) for hook in hooks]
