"""What a client can list: hooks, features, providers, modes; and switches for features and skills."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOOK = '[[hooks.PreToolUse]]\nmatcher = "Bash"\nhooks = [{ type = "command", command = "true", timeout = 5 }]\n'

PROVIDERS = """
[model_providers.bearer]
base_url = "https://x/v1"
experimental_bearer_token = "secret"
[model_providers.both]
base_url = "https://x/v1"
env_key = "KEY"
http_headers = { A = "secret" }
[model_providers.corp]
name = "Corp"
base_url = "https://x/v1"
env_key = "KEY"
[model_providers.query]
base_url = "https://x/v1?key=secret"
[model_providers.user]
base_url = "https://u:secret@x/v1"
"""

HERE = '[projects."{work}"]\ntrust_level = "trusted"\n'


def write_skill(folder: Path, name: str) -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"---\nname: {name}\ndescription: d\n---\nhi\n")
    return file


async def skills(client: Any) -> dict[str, bool]:
    (entry,) = (await client.call("skills/list"))["data"]
    return {skill["name"]: skill["enabled"] for skill in entry["skills"] if skill["scope"] != "system"}


def test_hooks_are_listed_whether_they_run_or_not(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(more=HERE.format(work=home.work))
    (home.work / ".git").mkdir()
    (home.work / ".codex").mkdir()
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "true", "async": True}, {"type": "prompt"}]}]}

    async def run() -> None:
        async with connected() as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            assert (await client.call("hooks/list"))["data"] == [
                {"cwd": str(home.work), "hooks": [], "warnings": [], "errors": []}
            ]
            (home.work / ".codex" / "hooks.json").write_text(json.dumps({"hooks": hooks}))
            (entry,) = (await client.call("hooks/list", threadId=thread_id))["data"]
            (hook,) = entry["hooks"]
            file = f"{home.work}/.codex/hooks.json"
            assert hook == {
                "key": f"{file}:stop:0:0",
                "eventName": "stop",
                "handlerType": "command",
                "command": "true",
                "async": True,
                "matcher": None,
                "timeoutSec": 600,
                "statusMessage": None,
                "additionalContextLimit": None,
                "sourcePath": file,
                "source": "project",
                "displayOrder": 0,
                "enabled": True,
                "isManaged": False,
                "currentHash": hook["currentHash"],
                "trustStatus": "untrusted",
                "pluginId": None,
                "environmentId": None,
            }
            (error,) = entry["errors"]
            assert error["path"] == file
            assert "'prompt'" in error["message"]
            trust = {"keyPath": f'hooks.state."{hook["key"]}".trusted_hash', "value": hook["currentHash"]}
            await client.call("config/value/write", **trust, mergeStrategy="replace")
            here, there = (await client.call("hooks/list", cwds=[str(home.work), str(home.path)]))["data"]
            assert [each["trustStatus"] for each in here["hooks"]] == ["trusted"]
            assert there["hooks"] == []
            error = await client.fail("hooks/list", threadId=thread_id, cwds=["/"])
            assert (error["code"], error["message"]) == (-32600, "specify either threadId or cwds")

    asyncio.run(run())


def test_without_the_plugins_lists_are_empty(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        off = 'framework.plugins.disabled=["hooks", "skills", "plan_mode", "memory_mode"]'
        async with connected(off, experimentalApi=True) as client:
            assert [entry["hooks"] for entry in (await client.call("hooks/list"))["data"]] == [[]]
            assert (await client.call("skills/list"))["data"] == []
            modes = (await client.call("collaborationMode/list"))["data"]
            assert [mode["mode"] for mode in modes] == ["default"]
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            error = await client.fail("thread/memoryMode/set", threadId=thread_id, mode="disabled")
            assert error["code"] == -32601

    asyncio.run(run())


def test_features_are_listed_and_switched_until_the_server_ends(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(more="[features]\nmemories = true\nnetwork_proxy = { enabled = true }\n")

    async def states(client: Any, **params: Any) -> dict[str, bool]:
        return {
            each["name"]: each["enabled"] for each in (await client.call("experimentalFeature/list", **params))["data"]
        }

    async def run() -> None:
        async with connected() as client:
            listed = (await client.call("experimentalFeature/list"))["data"]
            by_name = {each["name"]: each for each in listed}
            assert by_name["goals"] == {
                "name": "goals",
                "stage": "stable",
                "displayName": None,
                "description": None,
                "announcement": None,
                "enabled": True,
                "defaultEnabled": True,
            }
            proxy = by_name["network_proxy"]
            assert (proxy["stage"], proxy["displayName"], proxy["enabled"], proxy["defaultEnabled"]) == (
                "beta",
                "Network proxy",
                True,
                False,
            )
            assert by_name["code_mode"]["stage"] == "underDevelopment"
            page = await client.call("experimentalFeature/list", limit=0, cursor="2")
            assert ([each["name"] for each in page["data"]], page["nextCursor"]) == ([listed[2]["name"]], "3")
            error = await client.fail("experimentalFeature/list", cursor="999")
            assert error["message"] == f"cursor 999 exceeds total feature flags {len(listed)}"

            wanted = {"mcp_2026_07_28": True, "memories": False, "goals": False, "no_such": True}
            switched = (await client.call("experimentalFeature/enablement/set", enablement=wanted))["enablement"]
            assert switched == {"mcp_2026_07_28": True, "memories": False}
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            found = await states(client, threadId=thread_id)
            assert (found["mcp_2026_07_28"], found["memories"], found["goals"]) == (True, True, True)
            await client.call("experimentalFeature/enablement/set", enablement={"mcp_2026_07_28": False})
            assert not (await states(client))["mcp_2026_07_28"]
            assert (await client.fail("experimentalFeature/list", threadId="x"))["code"] == -32600
        async with connected() as client:
            assert not (await states(client))["mcp_2026_07_28"]

    asyncio.run(run())


def test_a_switched_feature_applies_to_new_threads(home: Any, serving: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            for is_on in (True, False):
                await client.call("experimentalFeature/enablement/set", enablement={"mcp_2026_07_28": is_on})
                thread_id = (await client.call("thread/start"))["thread"]["id"]
                kernels = [each for each in running.server.kernels.running if thread_id in each.threads]
                assert [each.config.get("features.mcp_2026_07_28") for each in kernels] == [is_on]

    asyncio.run(run())


def test_providers_are_listed_without_secrets(home: Any, connected: Callable[..., Any]) -> None:
    model = home.serve(more=PROVIDERS)

    async def run() -> tuple[dict[str, Any], dict[str, Any]]:
        async with connected() as client:
            assert (await client.call("modelProvider/capabilities/read")) == {
                "imageGeneration": True,
                "webSearch": True,
            }
            mine = await client.call("modelProvider/list")
        async with connected('model_provider="corp"', 'openai_base_url="https://o/v1"') as client:
            return mine, await client.call("modelProvider/list")

    mine, assigned = asyncio.run(run())
    assert "secret" not in json.dumps(mine)
    outside = {"mode": "externallyConfigured", "envKey": None}
    assert {each["id"]: (each["name"], each["baseUrl"], each["settings"].get("auth")) for each in mine["data"]} == {
        "bearer": ("bearer", "https://x/v1", outside),
        "both": ("both", "https://x/v1", {**outside, "envKey": "KEY"}),
        "corp": ("Corp", "https://x/v1", {"mode": "environmentVariable", "envKey": "KEY"}),
        "here": ("here", model.url, {"mode": "none"}),
        "openai": ("OpenAI", None, None),
        "query": ("query", None, outside),
        "user": ("user", None, outside),
    }
    assert [each["canEdit"] for each in mine["data"]] == [True, True, True, True, False, True, True]
    assert (mine["defaultProviderId"], mine["canChangeDefault"]) == ("here", True)
    assert (assigned["defaultProviderId"], assigned["canChangeDefault"]) == ("corp", False)
    assert assigned["data"][4]["baseUrl"] == "https://o/v1"


def test_collaboration_modes_are_those_of_codex(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            assert (await client.call("collaborationMode/list"))["data"] == [
                {"name": "Plan", "mode": "plan", "model": None, "reasoning_effort": "medium"},
                {"name": "Default", "mode": "default", "model": None, "reasoning_effort": None},
            ]

    asyncio.run(run())


def test_skills_are_switched_in_the_users_file(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(more='[skills]\nconfig = [{ name = "other", enabled = false }] # mine\n')
    file = write_skill(home.path / "skills", "one")
    write_skill(home.path / "skills", "two")

    async def run() -> None:
        async with connected() as client:

            async def switch(enabled: bool, **selector: str) -> dict[str, bool]:
                answer = await client.call("skills/config/write", enabled=enabled, **selector)
                assert answer == {"effectiveEnabled": enabled}
                return await skills(client)

            assert await skills(client) == {"one": True, "two": True}
            assert await switch(False, path=f"{file.parent}/x/../SKILL.md") == {"one": False, "two": True}
            assert await switch(False, name=" two ") == {"one": False, "two": False}
            assert await switch(True, path=str(file)) == {"one": True, "two": False}
            assert '"other"' in (home.path / "config.toml").read_text()
            assert await switch(True, name="two") == {"one": True, "two": True}
            assert await switch(True, name="other") == {"one": True, "two": True}
            assert "other" not in (home.path / "config.toml").read_text()
            before = (home.path / "config.toml").read_text()
            assert await switch(True, name="never") == {"one": True, "two": True}
            assert (home.path / "config.toml").read_text() == before

    asyncio.run(run())


@pytest.mark.parametrize("selector", [{}, {"name": " "}, {"path": "/x/SKILL.md", "name": "x"}])
def test_a_skill_is_named_in_one_way(home: Any, connected: Callable[..., Any], selector: dict[str, str]) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            error = await client.fail("skills/config/write", enabled=False, **selector)
            assert error == {"code": -32602, "message": "skills/config/write requires exactly one of path or name"}
            error = await client.fail("skills/config/write", enabled=False, path="x/SKILL.md")
            assert error["message"] == "Invalid request: AbsolutePathBuf deserialized without a base path"

    asyncio.run(run())


def test_further_folders_of_skills_last_until_the_server_ends(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()
    write_skill(home.work / "more", "extra")

    async def run() -> None:
        async with connected() as client:
            assert await client.call("skills/extraRoots/set", extraRoots=[f"{home.work}/x/../more"]) == {}
            assert await client.notification("skills/changed") == {}
            assert await skills(client) == {"extra": True}
            await client.call("skills/extraRoots/set", extraRoots=[])
            assert await skills(client) == {}
            assert (await client.fail("skills/extraRoots/set", extraRoots=["more"]))["code"] == -32600
        async with connected() as client:
            assert await skills(client) == {}

    asyncio.run(run())


def test_clients_are_told_of_changed_skills_once_they_have_listed_them(
    home: Any, connected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_plugin_app_server.skill_watching._GATHERING_S", 0.01)
    monkeypatch.setenv("HOME", str(home.path.parent))
    home.serve()

    async def run() -> None:
        async with connected() as client:
            assert await skills(client) == {}
            for number, root in enumerate((home.path, home.path.parent / ".agents", home.work / ".agents")):
                file = write_skill(root / "skills", f"new{number}")
                await client.notification("skills/changed")
                await skills(client)
                file.write_text(file.read_text().replace("hi", "ho"))
                await client.notification("skills/changed")
            assert (await skills(client)).keys() == {"new0", "new1"}  # the project is not trusted

    asyncio.run(run())


def test_memory_mode_is_recorded_whether_the_thread_is_loaded_or_not(home: Any, connected: Callable[..., Any]) -> None:
    from codex_framework.testing import say

    home.serve(say("a"))

    def recorded() -> list[str]:
        (file,) = (home.path / "sessions").rglob("*.jsonl")
        heads = [
            row["payload"] for row in map(json.loads, file.read_text().splitlines()) if row["type"] == "session_meta"
        ]
        return [head.get("memory_mode") for head in heads]

    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            thread_id = (await client.call("thread/start"))["thread"]["id"]
            await client.turn(thread_id, "hi")
            assert await client.call("thread/memoryMode/set", threadId=thread_id, mode="disabled") == {}
        assert recorded()[-1] == "disabled"
        async with connected(experimentalApi=True) as client:
            assert await client.call("thread/memoryMode/set", threadId=thread_id, mode="enabled") == {}
            assert recorded()[-1] == "enabled"
            assert (await client.call("thread/loaded/list"))["data"] == []
            error = await client.fail("thread/memoryMode/set", threadId=thread_id.replace("0", "1"), mode="enabled")
            assert (error["code"], error["message"]) == (
                -32600,
                f"no rollout found for thread id {thread_id.replace('0', '1')}",
            )
            error = await client.fail("thread/memoryMode/set", threadId=thread_id, mode="polluted")
            assert error["message"] == "Invalid request: unknown variant `polluted`, expected `enabled` or `disabled`"

    asyncio.run(run())
