"""Which commands and patches need an approval: every policy with every request and every verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import AccessMode, CommandVerdict, FileAccess, NetworkMode, NetworkRules, ToolRefused, Verdict
from codex_framework.commands.approval import (
    ApprovalRequirement,
    command_requirement,
    may_ask_about_hosts,
    may_retry,
    patch_requirement,
)
from codex_framework.contract.permissions.file_access import PathRule
from codex_framework.contract.protocol.events.command import AddFile, UpdateFile
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval

POLICIES = {
    "untrusted": ApprovalPolicy.UNTRUSTED,
    "on-failure": ApprovalPolicy.ON_FAILURE,
    "on-request": ApprovalPolicy.ON_REQUEST,
    "never": ApprovalPolicy.NEVER,
    "granular": GranularApproval(sandbox_approval=True, rules=True, mcp_elicitations=True),
    "no sandbox": GranularApproval(sandbox_approval=False, rules=True, mcp_elicitations=True),
    "no rules": GranularApproval(sandbox_approval=True, rules=False, mcp_elicitations=True),
}

VERDICTS = (
    None,
    CommandVerdict(verdict=Verdict.ALLOW),
    CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True),
    CommandVerdict(verdict=Verdict.ASK, reason="hm", amendment=("a",)),
    CommandVerdict(verdict=Verdict.ASK, by_rule=True),
    CommandVerdict(verdict=Verdict.ASK, precaution=True),
    CommandVerdict(verdict=Verdict.FORBID, reason="no"),
)

# One letter for each verdict: r runs in the sandbox, u runs without it, a is asked about and runs in the sandbox, A is asked about
# and runs without it, p is asked about where somebody can answer, x is refused.
TABLE = {
    "use_default": {
        "untrusted": "aruaaax",
        "on-failure": "rruaapx",
        "on-request": "rruaapx",
        "never": "rruxxxx",
        "granular": "rruaapx",
        "no sandbox": "rruxaxx",
        "no rules": "rruaxpx",
    },
    "require_escalated": {
        "untrusted": "xxuxxxx",
        "on-failure": "xxuxxxx",
        "on-request": "AAuAAAx",
        "never": "xxuxxxx",
        "granular": "AAuAAAx",
        "no sandbox": "xxuxxxx",
        "no rules": "AAuAAAx",
    },
    "with_additional_permissions": {
        "untrusted": "xxuxxxx",
        "on-failure": "xxuxxxx",
        "on-request": "aauaaax",
        "never": "xxuxxxx",
        "granular": "aauaaax",
        "no sandbox": "xxuxxxx",
        "no rules": "aauaaax",
    },
}


def letter(policy: str, escalate: str, verdict: CommandVerdict | None) -> str:
    try:
        needs = command_requirement(POLICIES[policy], escalate, verdict)
    except ToolRefused:
        return "x"
    if not needs.ask:
        return "u" if needs.unconfined else "r"
    return "p" if needs.precaution else "A" if needs.unconfined else "a"


@pytest.mark.parametrize("escalate", TABLE)
@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_decides_as_the_table_says(policy: str, escalate: str) -> None:
    assert "".join(letter(policy, escalate, verdict) for verdict in VERDICTS) == TABLE[escalate][policy]


def test_the_question_shows_the_reason_and_offers_the_prefix() -> None:
    _, _, _, asks, *_ = VERDICTS
    for escalate, unconfined in (("use_default", False), ("require_escalated", True)):
        needs = command_requirement(ApprovalPolicy.ON_REQUEST, escalate, asks)
        assert needs == ApprovalRequirement(ask=True, reason="hm", unconfined=unconfined, amendment=("a",))


def test_a_refusal_gives_the_reason_of_the_verdict() -> None:
    with pytest.raises(ToolRefused, match=r"^no$"):
        command_requirement(ApprovalPolicy.ON_REQUEST, "use_default", VERDICTS[-1])
    with pytest.raises(ToolRefused, match="rejected: blocked by policy"):
        command_requirement(ApprovalPolicy.ON_REQUEST, "use_default", CommandVerdict(verdict=Verdict.FORBID))


@pytest.mark.parametrize(
    ("policy", "hosts", "retry"),
    [
        ("untrusted", True, True),
        ("on-failure", True, True),
        ("on-request", True, False),
        ("never", False, False),
        ("granular", True, True),
        ("no sandbox", False, False),
        ("no rules", True, True),
    ],
)
def test_hosts_and_retries_are_asked_about_under_some_policies(policy: str, hosts: bool, retry: bool) -> None:
    assert may_ask_about_hosts(POLICIES[policy]) is hosts
    assert may_retry(POLICIES[policy]) is retry


@pytest.mark.parametrize(
    ("policy", "inside", "outside"),
    [
        ("untrusted", "a", "a"),
        ("on-failure", "r", "a"),
        ("on-request", "r", "a"),
        ("never", "r", "x"),
        ("granular", "r", "a"),
        ("no sandbox", "r", "x"),
        ("no rules", "r", "a"),
    ],
)
def test_a_patch_needs_an_approval_where_a_path_of_it_may_not_be_written(
    policy: str, inside: str, outside: str, tmp_path: Path
) -> None:
    work, away = tmp_path / "work", str(tmp_path / "away")
    access = FileAccess.writing(work)

    def patched(changes: dict[str, AddFile | UpdateFile]) -> str:
        try:
            return "a" if patch_requirement(POLICIES[policy], access, changes).ask else "r"
        except ToolRefused:
            return "x"

    file, update = str(work / "a"), UpdateFile("")
    assert patched({file: AddFile("")}) == inside
    assert patched({file: update.evolve(move_path=str(work / "b"))}) == inside
    assert patched({away: AddFile("")}) == outside
    assert patched({file: AddFile(""), away: AddFile("")}) == outside
    assert patched({file: update.evolve(move_path=away)}) == outside
    assert patched({}) == "x"


# What one access permits of another


def access_of(network: NetworkMode, *hosts: str) -> FileAccess:
    return FileAccess(network=network, network_rules=NetworkRules(domains=dict.fromkeys(hosts, "allow")))


def test_a_network_is_within_a_wider_one_or_the_same() -> None:
    off, proxy, on = (access_of(mode) for mode in (NetworkMode.OFF, NetworkMode.PROXY, NetworkMode.ON))
    assert off.within(proxy)
    assert proxy.within(on)
    assert not proxy.within(off)
    assert not on.within(proxy)
    assert not access_of(NetworkMode.PROXY, "a").within(access_of(NetworkMode.PROXY, "b"))
    assert access_of(NetworkMode.PROXY, "a").within(access_of(NetworkMode.PROXY, "a"))
    assert access_of(NetworkMode.OFF, "a").within(access_of(NetworkMode.OFF, "b")), (
        "the rules of no network do not matter"
    )


def test_full_access_denies_nothing_and_confines_nothing() -> None:
    rules = (PathRule(Path("/secret"), AccessMode.DENY),)
    assert not FileAccess(rules=rules, full=True).denies
    assert not FileAccess(rules=rules, full=True).confines_files
    assert FileAccess(rules=rules).denies
    assert FileAccess(rules=rules).confines_files
