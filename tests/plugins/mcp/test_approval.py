"""Whether a call needs approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import ApprovalPolicy, FileAccess, ToolError, TurnFacts
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import DangerFullAccess, GranularApproval, ReadOnly
from codex_plugin_mcp.approval import NEVER_ASKED, NOT_ASKED, approval_for, is_risky
from codex_plugin_mcp.servers import ServerConfig


def facts(policy=ApprovalPolicy.ON_REQUEST, *, full=False):
    permissions = permissions_of(DangerFullAccess() if full else ReadOnly())
    return TurnFacts(cwd=Path("/"), approval_policy=policy, permissions=permissions, access=FileAccess(full=full))


def wanted(hints=None, mode="auto", turn=None, tools=None):
    server = ServerConfig(name="srv", command="x", default_tools_approval_mode=mode, tools=tools or {})
    tool = {"name": "t"} if hints is None else {"name": "t", "annotations": hints}
    return approval_for(server, tool, "{}", turn or facts())


@pytest.mark.parametrize(
    ("hints", "risky"),
    [
        ({}, True),
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": False}, True),
        ({"destructiveHint": True}, True),
        ({"destructiveHint": True, "readOnlyHint": True}, True),
        ({"destructiveHint": False}, True),
        ({"openWorldHint": False}, True),
        ({"destructiveHint": False, "openWorldHint": False}, False),
        ({"destructiveHint": False, "openWorldHint": True}, True),
        ({"readOnlyHint": "true"}, True),
        ({"destructiveHint": None, "openWorldHint": None}, True),
    ],
)
def test_annotations_decide(hints, risky):
    assert is_risky(hints) is risky
    assert (wanted(hints) is not None) is risky


def test_the_mode_decides_before_annotations():
    assert wanted({"destructiveHint": True}, mode="approve") is None
    assert wanted({"readOnlyHint": True}, mode="prompt") is not None
    assert wanted({"destructiveHint": True}, tools={"t": {"approval_mode": "approve"}}) is None
    assert wanted({"readOnlyHint": True}, mode="approve", tools={"t": {"approval_mode": "prompt"}}) is not None
    assert wanted({"readOnlyHint": True}, tools={"other": {"approval_mode": "prompt"}}) is None


@pytest.mark.parametrize(
    ("hints", "asks"),
    [
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": True, "destructiveHint": True}, True),
        ({"readOnlyHint": "true"}, True),
        ({"destructiveHint": False, "openWorldHint": False}, True),
        ({}, True),
    ],
)
def test_the_mode_writes_asks_unless_a_tool_only_reads(hints, asks):
    assert (wanted(hints, mode="writes") is not None) is asks
    assert (wanted(hints, mode="approve", tools={"t": {"approval_mode": "writes"}}) is not None) is asks


def test_annotations_that_are_no_object_say_nothing():
    assert wanted("readOnlyHint") is not None
    assert wanted(["readOnlyHint"]) is not None


def test_where_nobody_may_be_asked_only_full_access_runs_risky_tools():
    assert wanted(turn=facts(ApprovalPolicy.NEVER, full=True)) is None
    with pytest.raises(ToolError, match=NEVER_ASKED):
        wanted(turn=facts(ApprovalPolicy.NEVER))
    assert wanted({"readOnlyHint": True}, turn=facts(ApprovalPolicy.NEVER)) is None
    assert wanted(turn=facts(full=True)) is not None


def test_a_granular_policy_may_forbid_questions_about_servers():
    silent = GranularApproval(sandbox_approval=True, rules=True, mcp_elicitations=False)
    with pytest.raises(ToolError, match=f"^{NOT_ASKED}$"):
        wanted(turn=facts(silent))
    with pytest.raises(ToolError, match=f"^{NOT_ASKED}$"):
        wanted(turn=facts(silent, full=True))
    assert wanted({"readOnlyHint": True}, turn=facts(silent)) is None
    assert wanted(turn=facts(silent.evolve(mcp_elicitations=True))) is not None


def test_the_question_names_server_and_tool():
    approval = wanted()
    assert approval.question == "Allow the MCP server `srv` to run the tool `t`?"
    assert approval.key.startswith("srv/t#")
    assert approval.always
    assert approval.details["codex_approval_kind"] == "mcp_tool_call"


def test_the_key_is_one_of_the_tool_as_the_user_sees_it():
    def key(server=None, **tool):
        return approval_for(
            ServerConfig(name="srv", command="x").evolve(**(server or {})), {"name": "t", **tool}, "{}", facts()
        ).key

    assert key() == key(outputSchema={}, _meta={"etag": 1})
    others = [
        key(description="d"),
        key(title="t"),
        key(annotations={"destructiveHint": True}),
        key(inputSchema={"type": "object"}),
        key(server={"command": "y"}),
        key(server={"args": ("y",)}),
        key(server={"name": "srv2"}),
        key(name="u"),
    ]
    assert len({key(), *others}) == len(others) + 1
