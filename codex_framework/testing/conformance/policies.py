"""The check of command policies: an immediate verdict on any command, and saved decisions of the user."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    DangerFullAccess,
    GranularApproval,
    ReadOnly,
    WorkspaceWrite,
)
from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.roles.policies import CommandPolicy, CommandVerdict, Verdict
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.testing.facts import turn_facts
from codex_framework.toolkit.roles import add_defaults, overrides

__all__ = ["check_command_policy"]

_WITHIN_S = 1.0
"""Time limit in seconds. A policy is called on the event loop before each command, so it may read files but must not wait."""

_COMMANDS = (
    ("ls",),
    ("bash", "-lc", "ls | head -3 && rm -rf x"),
    ("bash", "-lc", "for a in b; do $(x) <<E\nE\ndone"),
    ("bash", "-lc", "'"),
    ("/usr/bin/git", "push", "--force"),
    ("",),
    ("a b", "", "\n\t\x01", "é\N{PARTY POPPER}", "\udcff"),
    ("sh", "-c", "x" * 100_000),
)
"""Typical, invalid, empty, unusual and long commands."""

_HOSTS = ("example.com", "127.0.0.1", "::1", "xn--wgv71a.example", "", "a" * 300)
_PREFIX = ("check-command-policy", "some words")
_APPROVALS = (
    *ApprovalPolicy,
    GranularApproval(sandbox_approval=False, rules=True, mcp_elicitations=False),
)


def check_command_policy(policy: CommandPolicy, *, config: Mapping[str, Any] | None = None) -> None:
    """Check that a command policy fulfils its role.

    It is asked about unusual commands and hosts under each approval policy. If it saves answers, it must save a prefix and two
    hosts in a
    temporary ``$CODEX_HOME``. If your policy saves them elsewhere, create a new instance for the check.

    Args:
        policy: The policy.
        config: The turn's configuration.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("command policy", policy)
    if findings.check_members(policy, CommandPolicy):
        policy = add_defaults(policy, CommandPolicy)
        findings.require_name(policy)
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder, "home")
            home.mkdir()
            facts = turn_facts(
                approval_policy=ApprovalPolicy.ON_REQUEST,
                permissions=permissions_of(WorkspaceWrite()),
                cwd=Path(folder),
                config=config or {},
                codex_home=home,
            )
            _check_commands(findings, policy, facts)
            _check_more(findings, policy, facts)
    findings.raise_any()


def _check_commands(findings: Findings, policy: CommandPolicy, facts: TurnFacts) -> None:
    for argv in _COMMANDS:
        for approval in _APPROVALS:
            for sandbox in (ReadOnly(), WorkspaceWrite(), DangerFullAccess()):
                for escalate in ("use_default", "require_escalated"):
                    now = facts.evolve(approval_policy=approval, permissions=permissions_of(sandbox))
                    request = CommandRequest(argv=argv, escalate=escalate, prefix_rule=argv[:1])
                    try:
                        _check_verdict(findings, _judge(findings, policy, request, now))
                    except Unmet:
                        return
    here = facts.evolve(cwd=facts.cwd / "no such folder", codex_home=None)
    try:
        _check_verdict(findings, _judge(findings, policy, CommandRequest(argv=("ls",)), here))
    except Unmet:
        return


def _judge(findings: Findings, policy: CommandPolicy, request: CommandRequest, facts: TurnFacts) -> object:
    shown = " ".join(request.argv)
    what = f"judge({shown if len(shown) <= 60 else shown[:60] + '...'!r})"
    verdict = findings.call(what, lambda: policy.judge(request, facts), within_s=_WITHIN_S)
    again = findings.call(what, lambda: policy.judge(request, facts), within_s=_WITHIN_S)
    findings.require(verdict == again, f"{what} returns another verdict when called twice in a row")
    return verdict


def _check_verdict(findings: Findings, verdict: object) -> None:
    if verdict is None:
        return
    if not isinstance(verdict, CommandVerdict):
        findings.note(f"judge returns {type(verdict).__name__}, not a CommandVerdict or None")
        return
    given: Any = verdict.verdict
    findings.require(isinstance(given, Verdict), f"a verdict is {given!r}, not a Verdict")
    findings.require(
        not verdict.bypass_sandbox or given is Verdict.ALLOW,
        "a verdict bypasses the sandbox and does not allow the command",
    )
    findings.require(not verdict.by_rule or given is Verdict.ASK, "a verdict is `by_rule` and does not ask")
    findings.require(given is not Verdict.FORBID or verdict.reason, "a refusal has no reason: the model reads it")
    words: Any = verdict.amendment
    findings.require(
        words is None or (isinstance(words, tuple) and words and all(isinstance(word, str) for word in words)),
        f"an amendment is {words!r}, not a tuple with words",
    )


def _check_more(findings: Findings, policy: CommandPolicy, facts: TurnFacts) -> None:
    """Check the optional methods that the policy overrides."""
    if overrides(policy, CommandPolicy, "judge_network"):
        _check_hosts(findings, policy, facts)
    _check_memory(findings, policy, facts)


def _check_hosts(findings: Findings, policy: CommandPolicy, facts: TurnFacts) -> None:
    for host in _HOSTS:
        for protocol in ("http", "https", "socks5_tcp", "socks5_udp"):
            try:
                _judge_host(findings, policy, NetworkTarget(host, 443, protocol), facts)
            except Unmet:
                return


def _judge_host(findings: Findings, policy: CommandPolicy, target: NetworkTarget, facts: TurnFacts) -> object:
    what = f"judge_network({target.protocol} to {target.host[:60]!r})"
    verdict: object = findings.call(what, lambda: policy.judge_network(target, facts), within_s=_WITHIN_S)
    findings.require(
        verdict is None or isinstance(verdict, Verdict), f"{what} returns {verdict!r}, not a Verdict or None"
    )
    return verdict


def _check_memory(findings: Findings, policy: CommandPolicy, facts: TurnFacts) -> None:
    allowed, denied = NetworkTarget("allowed.example", 443, "https"), NetworkTarget("denied.example", 80, "http")
    prefixes = overrides(policy, CommandPolicy, "remember_prefix")
    hosts = overrides(policy, CommandPolicy, "remember_host")
    calls: dict[str, Callable[[TurnFacts], str]] = {}
    if prefixes:
        calls["remember_prefix"] = partial(policy.remember_prefix, _PREFIX)
    if hosts:
        calls["remember_host(allow=True)"] = partial(policy.remember_host, allowed, allow=True)
        calls["remember_host(allow=False)"] = partial(policy.remember_host, denied, allow=False)
    (facts.cwd / "file").touch()
    nowhere = (facts.evolve(codex_home=None), facts.evolve(codex_home=facts.cwd / "file"))
    try:
        for what, remember in calls.items():
            for impossible in nowhere:
                _check_remember(findings, f"{what} where nothing can be written", partial(remember, impossible))
            for which in (what, f"a second {what} of the same"):
                if not _check_remember(findings, which, partial(remember, facts)):
                    findings.note(f"{which} raises CodexError, though $CODEX_HOME can be written")
        if prefixes:
            _check_prefix(findings, policy, facts)
        if hosts and overrides(policy, CommandPolicy, "judge_network"):
            for target, wanted in ((allowed, Verdict.ALLOW), (denied, Verdict.FORBID)):
                found = _judge_host(findings, policy, target, facts)
                findings.require(
                    found is wanted, f"a host has just been remembered, and the verdict on it is {found!r}"
                )
    except Unmet:
        return


def _check_prefix(findings: Findings, policy: CommandPolicy, facts: TurnFacts) -> None:
    verdict = _judge(findings, policy, CommandRequest(argv=(*_PREFIX, "more")), facts)
    findings.require(
        verdict is None or (isinstance(verdict, CommandVerdict) and verdict.verdict is Verdict.ALLOW),
        "a command is not allowed, though its prefix has just been remembered",
    )


def _check_remember(findings: Findings, what: str, remember: Callable[[], str]) -> bool:
    """Return whether it returned a text. It may raise CodexError instead."""
    try:
        text: object = findings.call(what, remember, within_s=_WITHIN_S, allowed=(CodexError,))
    except CodexError as error:
        findings.require(error.hint, f"{what} raises an error without a hint")
        return False
    findings.require(isinstance(text, str) and text, f"{what} returns {text!r}, not what the model is to be told")
    return True
