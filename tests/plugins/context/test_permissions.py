from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codex_framework import Fragment, TurnFacts
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    DangerFullAccess,
    ExternalSandbox,
    GranularApproval,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from codex_plugin_context import DeveloperInstructions, Permissions

Facts = Callable[..., TurnFacts]


def told(facts: TurnFacts) -> str:
    (fragment,) = Permissions().fragments(facts)
    assert (fragment.role, fragment.order) == ("developer", 0)
    assert (fragment.start, fragment.end) == ("<permissions instructions>", "</permissions instructions>")
    assert fragment.text.startswith(fragment.start)
    assert fragment.text.endswith(fragment.end)
    return fragment.text


@pytest.mark.parametrize(
    ("policy", "mode", "network"),
    [
        (DangerFullAccess(), "`danger-full-access`", "The network can be used."),
        (ReadOnly(), "`read-only`", "The network is blocked."),
        (ReadOnly(network_access=True), "`read-only`", "The network can be used."),
        (WorkspaceWrite(), "`workspace-write`", "The network is blocked."),
        (WorkspaceWrite(network_access=True), "`workspace-write`", "The network can be used."),
        (ExternalSandbox(), "set up externally", "Assume that there is no network."),
        (ExternalSandbox(network_access="enabled"), "set up externally", "The network can be used."),
    ],
)
@pytest.mark.parametrize("approval", list(ApprovalPolicy))
def test_every_policy_is_told(
    facts: Facts, policy: SandboxPolicy, mode: str, network: str, approval: ApprovalPolicy
) -> None:
    text = told(facts(sandbox=policy, approval=approval))
    assert mode in text
    assert network in text
    assert f"`approval_policy` is `{approval.value}`" in text


def test_writable_folders_and_what_stays_shut_are_named(facts: Facts, work: Path) -> None:
    text = told(facts(sandbox=WorkspaceWrite(writable_roots=("/srv/data",))))
    assert f"`{work}`" in text
    assert "`/srv/data`" in text
    assert "`/tmp`" in text
    assert "`.git`, `.agents`, `.codex` stay read-only" in text


def test_how_to_ask_is_told_only_where_asking_helps(facts: Facts) -> None:
    on_request = ApprovalPolicy.ON_REQUEST
    assert '"require_escalated"' in told(facts(sandbox=WorkspaceWrite(), approval=on_request))
    assert '"require_escalated"' not in told(facts(sandbox=DangerFullAccess(), approval=on_request))
    assert '"require_escalated"' not in told(facts(sandbox=WorkspaceWrite(), approval=ApprovalPolicy.NEVER))
    assert '"require_escalated"' in told(facts(approval=GranularApproval(True, True, True)))
    assert '"require_escalated"' not in told(facts(approval=GranularApproval(False, True, True)))


def test_a_granular_policy_says_what_is_asked_and_what_refused(facts: Facts) -> None:
    text = told(facts(approval=GranularApproval(sandbox_approval=False, rules=True, mcp_elicitations=False)))
    assert "can be asked about commands for which a rule requires approval." in text
    assert "Refused without asking: running commands without the sandbox, questions from MCP servers, skills," in text


def test_it_can_be_turned_off(facts: Facts) -> None:
    assert list(Permissions().fragments(facts(include_permissions_instructions=False))) == []


def test_developer_instructions_are_sent_as_they_stand(facts: Facts) -> None:
    text = "Answer in rhyme.\n"
    assert list(DeveloperInstructions().fragments(facts(developer_instructions=text))) == [
        Fragment(role="developer", text=text, start=text, order=50)
    ]


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_no_developer_instructions_are_sent_where_there_are_none(facts: Facts, text: str | None) -> None:
    assert list(DeveloperInstructions().fragments(facts(developer_instructions=text))) == []
