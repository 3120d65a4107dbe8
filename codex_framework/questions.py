"""Asking a person about a command, a host or more permissions, and keeping to what was answered.

The rules of *whether* to ask are pure (``approval.py``); how an answer gets here is the turn's business (``driver.py``).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from codex_framework.approval import ApprovalCache, may_ask_about_hosts
from codex_framework.errors import CodexError, ToolRefused
from codex_framework.permissions import Permissions, additional_to_wire
from codex_framework.protocol.events import ApprovalEvent
from codex_framework.protocol.events.command import ExecApprovalRequestEvent, RequestPermissionsEvent
from codex_framework.protocol.permissions import AbsolutePath, AdditionalPermissions, FileEntry
from codex_framework.protocol.policies import (
    ApprovalPolicy,
    Decision,
    GranularApproval,
    ReviewDecision,
    SandboxPolicy,
)
from codex_framework.protocol.wire import to_wire
from codex_framework.roles.deciders import CommandFacts, CommandPolicy, NetworkPolicy, Remembers, Verdict
from codex_framework.roles.networks import NetworkTarget
from codex_framework.roles.sandboxes import FileAccess
from codex_framework.roles.tools import CommandRequest
from codex_framework.value import Value

__all__ = ["HOST_REFUSED", "CallFacts", "HostRefused", "Questions", "parsed", "requested"]

_REJECTED = "rejected by user"
"""What the model reads where a person says no (Codex's words; clients look for them)."""

HOST_REFUSED = "Network access was denied by the Codex sandbox network proxy."
"""What the model reads of a command that was stopped because a person refused it a host (Codex's words)."""


def _unheard(_: object) -> None:
    """Where nobody listens."""


def _granted_to_nobody(permissions: AdditionalPermissions, session: bool) -> None:  # noqa: FBT001
    """Where nothing remembers it."""


class HostRefused(Exception):  # noqa: N818  # a turn of events
    """A person has refused a host: the command that wanted it is to end."""


class CallFacts(Value, kw_only=True):
    """The call on whose behalf a command runs, and its turn.

    Attributes:
        permissions: What the turn may do, symbolic.
        realise: Turns permissions into an access, in the turn's folder.
        note: Tells the model something in a developer message.
        grant: Lets the rest of the turn, or of the session (where the second argument is true), do more.
    """

    call_id: str
    turn_id: str
    cwd: Path
    access: FileAccess
    permissions: Permissions
    approval_policy: ApprovalPolicy | GranularApproval
    config: Mapping[str, Any]
    env: Mapping[str, str]
    emit: Callable[[Any], None]
    ask: Callable[[ApprovalEvent], Awaitable[ReviewDecision]]
    realise: Callable[[Permissions], FileAccess]
    note: Callable[[str], None] = _unheard
    grant: Callable[[AdditionalPermissions, bool], None] = _granted_to_nobody
    codex_home: Path | None = None

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The nearest sandbox policy to the permissions."""
        return self.permissions.sandbox_policy

    def for_policies(self) -> CommandFacts:
        """What a command policy may know of the turn."""
        return CommandFacts(
            approval_policy=self.approval_policy,
            sandbox_policy=self.sandbox_policy,
            cwd=self.cwd,
            config=self.config,
            codex_home=self.codex_home,
        )


class Questions:
    """What one thread has asked and what was answered for the session.

    Args:
        policies: Those of the kernel; they may have an opinion about hosts, and keep answers for good.
    """

    def __init__(self, policies: Iterable[CommandPolicy]) -> None:
        self._policies = tuple(policies)
        self.commands = ApprovalCache()
        self._hosts: dict[tuple[str, int, str], bool] = {}
        self._asking: dict[tuple[str, int, str], asyncio.Future[bool | None]] = {}

    async def command(
        self,
        request: CommandRequest,
        call: CallFacts,
        cwd: Path,
        *,
        reason: str | None,
        amendment: tuple[str, ...] | None = None,
        retry: bool = False,
    ) -> None:
        """Ask whether a command may run as it wants to.

        Args:
            amendment: A prefix that could be allowed from now on, to offer with the question.
            retry: It has run in the sandbox, and is to run again without it.

        Raises:
            ToolRefused: It may not.
        """
        keys = [("command", request.argv, str(cwd), request.escalate, request.additional, request.tty, retry)]
        if self.commands.covers(keys):
            return
        decisions: list[Any] = ["approved", "approved_for_session"]
        if amendment is not None:
            accepted = ReviewDecision(Decision.APPROVED, execpolicy_amendment=amendment)
            decisions.append(to_wire(accepted))
        decision = await call.ask(
            ExecApprovalRequestEvent(
                call_id=call.call_id,
                turn_id=call.turn_id,
                command=request.argv,
                cwd=str(cwd),
                started_at_ms=_now_ms(),
                reason=request.justification or reason,
                proposed_execpolicy_amendment=amendment,
                additional_permissions=additional_to_wire(request.additional),
                available_decisions=(*decisions, "denied", "abort"),
                parsed_cmd=parsed(request),
            )
        )
        if not decision.approved:
            raise ToolRefused(decision.message or _REJECTED)
        self.commands.remember(keys, decision)
        if decision.execpolicy_amendment is not None:
            self._keep(call, lambda policy, facts: policy.remember_prefix(decision.execpolicy_amendment or (), facts))

    async def host(self, target: NetworkTarget, request: CommandRequest, call: CallFacts, cwd: Path) -> bool:
        """Whether a host may be reached that the permission profile does not speak of.

        First what was answered for the session, then the policies, then a person, if one may be asked. Connections to one host,
        port and protocol wait for one question.

        Raises:
            HostRefused: A person said no.
        """
        key = (target.host, target.port, target.protocol)
        if key in self._hosts:
            return self._hosts[key]
        verdict = self._verdict(target, call.for_policies())
        if verdict is Verdict.ALLOW or verdict is Verdict.FORBID:
            return verdict is Verdict.ALLOW
        if not may_ask_about_hosts(call.approval_policy):
            return False
        while (waiting := self._asking.get(key)) is not None:
            shared = await asyncio.shield(waiting)
            if shared is not None:  # else the command that asked is gone
                return shared
        answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._asking[key] = answer
        try:
            decision = await self._ask_host(target, key, request, call, cwd)
            answer.set_result(decision.approved)
        finally:
            del self._asking[key]
            if not answer.done():
                answer.set_result(None)
        if decision.decision is Decision.DENIED:
            raise HostRefused
        return decision.approved  # an abort, or a question after the turn's end, refuses the host and no more

    async def _ask_host(
        self, target: NetworkTarget, key: tuple[str, int, str], request: CommandRequest, call: CallFacts, cwd: Path
    ) -> ReviewDecision:
        amendments = tuple({"host": target.host, "action": action} for action in ("allow", "deny"))
        offered = [{"network_policy_amendment": {"network_policy_amendment": one}} for one in amendments]
        decision = await call.ask(
            ExecApprovalRequestEvent(
                call_id=call.call_id,
                turn_id=call.turn_id,
                command=("network-access", f"{target.protocol}://{_bracketed(target.host)}:{target.port}"),
                cwd=str(cwd),
                started_at_ms=_now_ms(),
                reason=f'`{_shown(request)}` wants to reach "{target.host}", which no rule allows',
                network_approval_context={"host": target.host, "protocol": target.protocol},
                proposed_network_policy_amendments=amendments,
                available_decisions=("approved", "approved_for_session", *offered, "denied", "abort"),
            )
        )
        rule = decision.network_amendment
        if rule is not None:
            allow = rule.get("action") == "allow"
            self._hosts[key] = allow
            self._keep(call, lambda policy, facts: policy.remember_host(target, facts, allow=allow))
            return ReviewDecision(Decision.APPROVED if allow else Decision.DENIED)
        if decision.decision is Decision.APPROVED_FOR_SESSION:
            self._hosts[key] = True
        return decision

    def _verdict(self, target: NetworkTarget, facts: CommandFacts) -> Verdict | None:
        worst: Verdict | None = None
        for policy in self._policies:
            if not isinstance(policy, NetworkPolicy):
                continue
            try:
                verdict = policy.judge_network(target, facts)
            except Exception:  # a decider that is broken must not let anything through
                return Verdict.FORBID
            if verdict is not None and (worst is None or verdict > worst):
                worst = verdict
        return worst

    def _keep(self, call: CallFacts, remember: Callable[[Remembers, CommandFacts], str]) -> None:
        """Have every policy that can keep an answer do so. What cannot be kept holds for this once, and the model hears of it."""
        for policy in self._policies:
            if not isinstance(policy, Remembers):
                continue
            try:
                call.note(remember(policy, call.for_policies()))
            except CodexError as error:
                call.note(f"The rule could not be saved, so it holds for this once only: {error}")
            except Exception as error:  # a plugin may raise anything; the command was approved all the same
                call.note(f"The rule could not be saved: {policy.name} failed: {type(error).__name__}: {error}")


async def requested(
    permissions: AdditionalPermissions, reason: str | None, call: CallFacts
) -> tuple[AdditionalPermissions, str]:
    """Ask whether the turn, or the session, may do more; what is granted holds at once.

    Returns:
        What was granted, and for how long: ``turn`` or ``session``. Nothing, where a person said no.

    Raises:
        ToolRefused: Nobody may be asked, or the profile denies some of it.
    """
    policy = call.approval_policy
    if policy is ApprovalPolicy.NEVER or (isinstance(policy, GranularApproval) and not policy.request_permissions):
        raise ToolRefused("further permissions cannot be asked for under this approval policy; work without them")
    try:
        call.permissions.widened(permissions, call.access, call.cwd)
    except ValueError as error:
        raise ToolRefused(f"permissions refused: {error}") from error
    asked = _absolute(permissions, call.cwd)
    decision = await call.ask(
        RequestPermissionsEvent(
            call_id=call.call_id,
            turn_id=call.turn_id,
            started_at_ms=_now_ms(),
            cwd=str(call.cwd),
            permissions=additional_to_wire(asked) or {},
            reason=reason,
        )
    )
    granted = (decision.granted or AdditionalPermissions()).within(asked)
    session = decision.decision is Decision.APPROVED_FOR_SESSION
    if granted and decision.approved:
        call.grant(granted, session)
        return granted, "session" if session else "turn"
    return AdditionalPermissions(), "turn"


def _absolute(permissions: AdditionalPermissions, cwd: Path) -> AdditionalPermissions:
    """With the paths as they will be granted: a person should not have to guess what a relative one means."""
    entries = (
        FileEntry(AbsolutePath(os.path.normpath(cwd / Path(entry.path.path).expanduser())), entry.access)
        if isinstance(entry.path, AbsolutePath)
        else entry
        for entry in permissions.entries
    )
    return AdditionalPermissions(tuple(entries), permissions.network)


def parsed(request: CommandRequest) -> tuple[Mapping[str, Any], ...]:
    """The command as clients show it (wire: ``parsed_cmd``)."""
    return ({"type": "unknown", "cmd": _shown(request)},)


def _shown(request: CommandRequest) -> str:
    import shlex

    return request.script if request.script is not None else shlex.join(request.argv)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _now_ms() -> int:
    return int(time.time() * 1000)
