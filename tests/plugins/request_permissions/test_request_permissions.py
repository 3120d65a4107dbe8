"""Asking for more permissions, in whole turns: what is granted holds, and no more than that."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FunctionSpec, ToolCall, ToolContext, ToolOutput
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_framework.contract.protocol.events.command import RequestPermissionsEvent
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.contract.protocol.ops import PermissionsResponse, RequestPermissionsResponse
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_framework.testing import turn_facts
from codex_framework.testing.replies import call, say
from codex_plugin_request_permissions.tool import RequestPermissions

CONFIG = """sandbox_mode = "workspace-write"
sandbox_workspace_write.exclude_slash_tmp = true
features.request_permissions_tool = true
"""


class May:
    """Tells whether files may be written, and whether the network is on."""

    parallel_safe = True
    spec = FunctionSpec("may", "Tells.", {"type": "object", "properties": {}, "additionalProperties": True})

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        words = ["w" if context.access.may_write(path) else "-" for path in self._paths]
        return ToolOutput("".join((*words, "n" if context.access.network is NetworkMode.ON else "-")))


class Played:
    def __init__(self, make_kernel: Any) -> None:
        self._make_kernel = make_kernel
        self.asked: list[RequestPermissionsEvent] = []
        self.offered: list[bool] = []

    def play(
        self,
        wanted: dict[str, Any],
        answer: dict[str, Any] | None,
        may: May,
        *,
        scope: str = "turn",
        policy: Any = ApprovalPolicy.ON_REQUEST,
        config: str = CONFIG,
    ) -> list[Any]:
        """Ask, look, and look again in the next turn."""

        async def main() -> list[Any]:
            replies = [call("request_permissions", **wanted), call("may"), say("done"), call("may"), say("done")]
            async with self._make_kernel(replies, tools=[may], config=config) as kernel:
                thread = await kernel.start_thread(approval_policy=policy)
                for _ in range(2):
                    async for event in thread.stream("go"):
                        if isinstance(event, RequestPermissionsEvent):
                            self.asked.append(event)
                            granted = event.permissions if answer is None else answer
                            response = PermissionsResponse(permissions=granted, scope=scope)
                            await thread.submit(RequestPermissionsResponse(event.call_id, response))
                self.offered = [
                    any(spec.name == "request_permissions" for spec in request.tools)
                    for request in kernel.model.requests
                ]
                return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]

        return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.fixture
def played(make_kernel: Any) -> Played:
    return Played(make_kernel)


def entry(path: Path, access: str) -> dict[str, Any]:
    return {"path": {"type": "path", "path": str(path)}, "access": access}


@pytest.mark.parametrize(("scope", "later"), [("turn", "---"), ("session", "w-n")])
def test_what_is_granted_holds_for_the_turn_or_the_session(
    played: Played, tmp_path: Path, scope: str, later: str
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    wanted = {
        "permissions": {"network": {"enabled": True}, "file_system": {"write": [str(more)]}},
        "reason": "to build",
    }
    told, now, then = played.play(wanted, None, May(more / "x", more / ".git" / "x"), scope=scope)
    (event,) = played.asked
    permissions = {"network": {"enabled": True}, "file_system": {"entries": [entry(more, "write")]}}
    assert (event.permissions, event.reason) == (permissions, "to build")
    assert json.loads(told) == {"permissions": permissions, "scope": scope}
    assert (now, then) == ("w-n", later)


def test_a_part_can_be_granted_but_no_more_than_was_asked_for(played: Played, tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    wanted = {"permissions": {"file_system": {"write": [str(a), str(b)]}}}
    answer = {"network": {"enabled": True}, "file_system": {"write": [str(a), str(c)], "read": [str(b)]}}
    told, now, _ = played.play(wanted, answer, May(a, b, c))
    assert json.loads(told)["permissions"] == {"file_system": {"entries": [entry(b, "read"), entry(a, "write")]}}
    assert now == "w---"


def test_nothing_can_be_granted(played: Played, tmp_path: Path) -> None:
    told, now, _ = played.play({"permissions": {"network": {"enabled": True}}}, {}, May(tmp_path))
    assert json.loads(told) == {"permissions": {}, "scope": "turn"}
    assert now == "--"


@pytest.mark.parametrize("policy", [ApprovalPolicy.NEVER, GranularApproval(True, True, True)])
def test_nobody_is_asked_where_nobody_may_be(played: Played, tmp_path: Path, policy: Any) -> None:
    told, now, _ = played.play({"permissions": {"network": {"enabled": True}}}, None, May(tmp_path), policy=policy)
    assert told == "additional permissions cannot be requested under this approval policy; work without them"
    assert (now, played.asked) == ("--", [])


def test_granular_approval_can_let_them_be_asked_for(played: Played, tmp_path: Path) -> None:
    policy = GranularApproval(False, False, False, request_permissions=True)
    _, now, _ = played.play({"permissions": {"network": {"enabled": True}}}, None, May(tmp_path), policy=policy)
    assert now == "-n"


def test_what_is_denied_is_not_even_asked_for(played: Played, tmp_path: Path) -> None:
    config = f"""default_permissions = "p"
features.request_permissions_tool = true
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"{tmp_path}/secret" = "deny"
"""
    wanted = {"permissions": {"file_system": {"read": [f"{tmp_path}/secret/key"]}}}
    told, _, _ = played.play(wanted, None, May(tmp_path), config=config)
    assert told == f"permissions refused: {tmp_path}/secret/key is denied by the permission profile"
    assert played.asked == []


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, "failed to parse function arguments: missing field `permissions`"),
        ({"permissions": {}}, "request_permissions needs at least one of network.enabled and file_system"),
        (
            {"permissions": {"network": 1}},
            "failed to parse function arguments: network must be an object with enabled",
        ),
        (
            {"permissions": {"file_system": {"write": "/x"}}},
            "failed to parse function arguments: file_system.write must be a list of paths",
        ),
    ],
)
def test_wrong_arguments_are_told(played: Played, tmp_path: Path, wanted: dict[str, Any], text: str) -> None:
    told, *_ = played.play(wanted, None, May(tmp_path))
    assert told.startswith(text)


def test_it_is_offered_where_it_is_switched_on(played: Played, tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"permissions": {"network": {"enabled": True}}}
    played.play(nothing, {}, May(tmp_path))
    assert all(played.offered)
    played.play(nothing, {}, May(tmp_path), config=CONFIG.replace("features.request_permissions_tool = true", ""))
    assert not any(played.offered)


def test_without_any_feature_it_is_not_offered() -> None:
    assert not RequestPermissions().offered(turn_facts(config={}))


def test_an_answer_that_cannot_be_read_is_an_error_and_the_question_stays_open(make_kernel: Any) -> None:
    from codex_framework.contract.protocol.events import ErrorEvent

    async def main() -> None:
        replies = [call("request_permissions", permissions={"network": {"enabled": True}}), say("done")]
        async with make_kernel(replies, config=CONFIG) as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)
            errors = []
            async for event in thread.stream("go"):
                if isinstance(event, RequestPermissionsEvent):
                    for permissions, scope in (({"file": 1}, "turn"), ({"network": {"enabled": True}}, "for ever")):
                        response = PermissionsResponse(permissions=permissions, scope=scope)
                        await thread.submit(RequestPermissionsResponse(event.call_id, response))
                    good = PermissionsResponse(permissions={"network": {"enabled": True}})
                    await thread.submit(RequestPermissionsResponse(event.call_id, good))
                if isinstance(event, ErrorEvent):
                    errors.append(event.message)
            assert [text.split(":")[0] for text in errors[:1]] == ["the granted permissions cannot be read"]
            assert errors[1] == "the scope is 'for ever'. Answer with turn or session."

    asyncio.run(asyncio.wait_for(main(), 60))


def test_nobody_is_asked_where_it_is_switched_off(make_kernel: Any, tmp_path: Path) -> None:
    played = Played(make_kernel)
    wanted = {"permissions": {"network": {"enabled": True}}}
    config = CONFIG.replace("tool = true", "tool = false")
    outputs = played.play(wanted, {"network": {"enabled": True}}, May(tmp_path), config=config)
    assert outputs[0] == "unsupported call: request_permissions"
    assert played.asked == []
