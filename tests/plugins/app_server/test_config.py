"""Reading and writing the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework.testing.replies import say
from codex_framework.toolkit import administration

OTHER = '# mine\nmodel = "gpt-5.5" # the model\n\n[tui]\nnotifications = false\n'


def edit(key: str, value: Any, strategy: str = "replace") -> dict[str, Any]:
    return {"keyPath": key, "value": value, "mergeStrategy": strategy}


def test_each_key_is_shown_with_its_layer(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(more='[projects."' + str(home.work) + '"]\ntrust_level = "trusted"')
    (home.work / ".git").mkdir()
    (home.work / ".codex").mkdir()
    (home.work / ".codex" / "config.toml").write_text('model_verbosity = "low"\n')

    async def run() -> dict[str, Any]:
        async with connected('model_reasoning_effort="low"') as client:
            (home.path / "config.toml").write_text(
                (home.path / "config.toml").read_text().replace('model = "gpt-5.5"', 'model = "gpt-5.6-sol"')
            )
            read: dict[str, Any] = await client.call("config/read", cwd=str(home.work), includeLayers=True)
            plain = await client.call("config/read", cwd=str(home.path))
            assert (plain["layers"], plain["config"].get("model_verbosity")) == (None, None)
            return read

    read = asyncio.run(run())
    values = read["config"]
    assert (values["model"], values["model_verbosity"], values["model_reasoning_effort"]) == (
        "gpt-5.6-sol",
        "low",
        "low",
    )
    kinds = {key: origin["name"]["type"] for key, origin in read["origins"].items()}
    assert (kinds["model"], kinds["model_verbosity"], kinds["model_reasoning_effort"]) == (
        "user",
        "project",
        "sessionFlags",
    )
    assert [layer["name"]["type"] for layer in read["layers"]] == ["sessionFlags", "project", "user"]
    assert read["layers"][1]["name"]["dotCodexFolder"] == str(home.work / ".codex")


def test_writing_keeps_comments_and_tells_the_version(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()
    file = home.path / "config.toml"

    async def run() -> None:
        async with connected() as client:
            file.write_text(OTHER)
            written = await client.call("config/value/write", **edit("model", "gpt-5.6-sol"))
            assert written == {
                "status": "ok",
                "version": (await client.call("config/read", includeLayers=True))["layers"][0]["version"],
                "filePath": str(file),
                "overriddenMetadata": None,
            }
            assert file.read_text() == OTHER.replace("gpt-5.5", "gpt-5.6-sol")
            await client.call(
                "config/batchWrite",
                edits=[
                    edit("tui", {"theme": "dark"}, "upsert"),
                    edit('mcp_servers."a.b"', {"command": "x"}),
                    edit("model", None),
                ],
                expectedVersion=written["version"],
                reloadUserConfig=True,
            )
            config = (await client.call("config/read"))["config"]
            assert config["tui"] == {"notifications": False, "theme": "dark"}
            assert config["mcp_servers"] == {"a.b": {"command": "x"}}
            assert "model" not in config
            await client.call("config/value/write", **edit("tui", {"theme": "light"}))
            assert (await client.call("config/read"))["config"]["tui"] == {"theme": "light"}

    asyncio.run(run())
    assert file.read_text().startswith("# mine\n")


def test_a_value_that_another_layer_overrides_is_told(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected('model="gpt-5.6-sol"') as client:
            written = await client.call("config/value/write", **edit("model", "gpt-5.5"))
            assert written["status"] == "okOverridden"
            assert written["overriddenMetadata"]["effectiveValue"] == "gpt-5.6-sol"
            assert written["overriddenMetadata"]["overridingLayer"]["name"] == {"type": "sessionFlags"}
            written = await client.call("config/value/write", **edit("model", "gpt-5.6-sol"))
            assert written["status"] == "ok"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (edit("model", 5), "configValidationError"),
        (edit("modle", "x"), "configValidationError"),
        (edit("tui", {"theme": None}), "configValidationError"),
        (edit("tui", {"notifications": ["a", None]}), "configValidationError"),
        (edit("model", "\ud800"), "configValidationError"),
        (edit("model", 10**400), "configValidationError"),
        (edit("model.name", "x"), "configValidationError"),
        (edit("", "x"), "configValidationError"),
        (edit('a."b', "x"), "configValidationError"),
        ({**edit("model", "x"), "expectedVersion": "sha256:0"}, "configVersionConflict"),
        ({**edit("model", "x"), "filePath": "/etc/codex/config.toml"}, "configLayerReadonly"),
        ({**edit("model", "x"), "filePath": "PROJECT"}, "configLayerReadonly"),
    ],
)
def test_what_cannot_be_written_changes_nothing(
    home: Any, connected: Callable[..., Any], params: dict[str, Any], code: str
) -> None:
    home.serve()
    before = (home.path / "config.toml").read_bytes()
    if params.get("filePath") == "PROJECT":
        params = {**params, "filePath": str(home.work / ".codex" / "config.toml")}

    async def run() -> None:
        async with connected() as client:
            error = await client.fail("config/value/write", **params)
            assert (error["code"], error["data"]) == (-32600, {"config_write_error_code": code}), error
            good = edit("model", "gpt-5.6-sol")
            changes = {key: value for key, value in params.items() if key not in good}
            error = await client.fail("config/batchWrite", edits=[good, {key: params[key] for key in good}], **changes)
            assert error["data"] == {"config_write_error_code": code}

    asyncio.run(run())
    assert (home.path / "config.toml").read_bytes() == before
    assert not (home.work / ".codex").exists()


def test_written_model_is_that_of_the_next_thread(home: Any, connected: Callable[..., Any]) -> None:
    model = home.serve(say("ok"))
    file = home.path / "config.toml"

    async def run() -> None:
        async with connected() as client:
            written = await client.call("config/value/write", keyPath="model", value="gpt-5.4", mergeStrategy="replace")
            assert written["filePath"] == str(file)
            thread = (await client.call("thread/start"))["thread"]
            assert thread["model"] == "gpt-5.4"
            await client.turn(thread["id"], "hi")
            assert (await client.call("config/read"))["config"]["model"] == "gpt-5.4"

    asyncio.run(run())
    assert model.requests[0].json["model"] == "gpt-5.4"


REQUIREMENTS = """
allowed_approval_policies = ["on-request", "on-failure", "untrusted"]
allowed_sandbox_modes = ["read-only", "workspace-write", "external-sandbox"]
allowed_approvals_reviewers = ["user", "guardian_subagent"]
allowed_web_search_modes = ["cached"]
allowed_login_methods = ["api"]
allow_managed_hooks_only = true
additional_developer_instructions = "Be nice."
allow_remote_control = false
allow_appshots = "often"
[features]
memories = false
"""


def test_requirements_are_shown_in_the_words_of_the_protocol(
    home: Any, connected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.serve()
    file = home.path / "requirements.toml"
    monkeypatch.setattr(administration, "REQUIREMENTS", str(file))

    async def read() -> Any:
        async with connected() as client:
            answer = await client.call("configRequirements/read")
            assert answer["supportsIndependentSpeedModes"] is True
            return answer["requirements"]

    assert asyncio.run(read()) is None
    file.write_text("")
    assert asyncio.run(read()) is None
    file.write_text('allowed_approval_policies = ["never"]')
    sparse = asyncio.run(read())
    assert {key: value for key, value in sparse.items() if value is not None} == {
        "allowedApprovalPolicies": ["never"],
        "allowedLoginMethods": ["api", "chatgpt"],
    }
    file.write_text(REQUIREMENTS)
    whole = asyncio.run(read())
    assert whole.keys() == sparse.keys()
    assert {key: value for key, value in whole.items() if value is not None} == {
        "allowedApprovalPolicies": ["on-request", "untrusted"],
        "allowedSandboxModes": ["read-only", "workspace-write"],
        "allowedApprovalsReviewers": ["user", "auto_review"],
        "allowedWebSearchModes": ["cached", "disabled"],
        "allowedLoginMethods": ["api"],
        "allowManagedHooksOnly": True,
        "additionalDeveloperInstructions": "Be nice.",
        "allowRemoteControl": False,
        "featureRequirements": {"memories": False},
    }


def test_profile_that_requirements_do_not_permit_is_not_allowed(
    home: Any, connected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.serve(more='approval_policy = "on-request"\n[permissions.broken]\nextends = "nothing"')
    file = home.path / "requirements.toml"
    file.write_text('allowed_sandbox_modes = ["read-only"]\nallowed_approval_policies = ["untrusted"]\n')
    monkeypatch.setattr(administration, "REQUIREMENTS", str(file))

    async def run() -> None:
        async with connected() as client:
            profiles = (await client.call("permissionProfile/list"))["data"]
            assert {each["id"]: each["allowed"] for each in profiles} == {
                ":read-only": True,
                ":workspace": False,
                ":workspace-no-secrets": False,
                ":danger-full-access": False,
                "broken": False,
            }

    asyncio.run(run())
