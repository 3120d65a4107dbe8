"""Approval prompts about commands, hosts and additional permissions, and the handling of the answers.

Pure rules decide *whether* to ask (``approval.py``). The turn delivers the answers (``driver.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from codex_framework.commands.approval import ApprovalCache, judge_actor, may_ask_about_hosts, policy_actor
from codex_framework.commands.caller import Caller
from codex_framework.contract.errors import CodexError, ToolRefused, described
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.permissions.profile import additional_to_wire
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_framework.contract.protocol.events.command import ExecApprovalRequestEvent, RequestPermissionsEvent
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, AdditionalPermissions, FileEntry
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    Decision,
    GranularApproval,
    ReviewDecision,
    SandboxPermissions,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.roles.policies import CommandPolicy, Verdict
from codex_framework.contract.roles.provenance import Actor
from codex_framework.toolkit.variables import PLAIN_TERMINAL

__all__ = [
    "HOST_REFUSED",
    "ApprovalPrompts",
    "Caller",
    "HostRefused",
    "ask_for_permissions",
    "shown_command",
    "widened_access",
]

_REJECTED = "rejected by user"
"""The text for the model when the user refuses (Codex's text; clients look for it)."""

HOST_REFUSED = "Network access was denied by the Codex sandbox network proxy."
"""The text for the model when a command was ended because the user refused it a host (Codex's text)."""


_WORD = re.compile(r"[^\s\"'`;&|<>()=]+")
"""A word of a script that may be the name of a file."""

_MOST_PLACES = 10_000
"""Maximum number of places that are searched for files that a command names. An answer never covers a command with more."""

_HERE = re.compile(r"\$(?:PWD|\{PWD\})/")
"""The folder of a command, in front of the name of a file."""

_WRITTEN = re.compile(r">[>|]?[ \t]*[^\s;&|<>()]+")


class HostRefused(Exception):  # noqa: N818  # not an error, but an answer
    """The user refused a host, so the command that requested it must end."""


class ApprovalPrompts:
    """The approval prompts of one thread, with the answers that last for the session.

    Args:
        policies: The kernel's policies. They may decide about hosts, and save answers permanently.
    """

    def __init__(self, policies: Iterable[CommandPolicy]) -> None:
        self._policies = tuple(policies)
        self.commands = ApprovalCache()
        self._hosts: dict[tuple[str, int, str], bool] = {}
        self._asking: dict[tuple[str, int, str], asyncio.Future[bool | None]] = {}

    async def command(
        self,
        request: CommandRequest,
        call: Caller,
        cwd: Path,
        *,
        reason: str | None,
        amendment: tuple[str, ...] | None = None,
        retry: bool = False,
        precaution: bool = False,
    ) -> None:
        """Ask whether a command may run as requested.

        Args:
            request: The command.
            call: The call that runs the command.
            cwd: The command's working folder.
            reason: The text shown with the question.
            amendment: A prefix to offer with the question, to be allowed from now on. None if no prefix is offered.
            retry: Whether the command failed in the sandbox and would run again without it.
            precaution: Whether the command may run if no user can be asked.

        Raises:
            ToolRefused: The user refused.
        """
        variables = frozenset(request.env.items())
        place = named_place(call)
        additional = None if request.additional is None else _absolute(request.additional, call.cwd)
        permissions = (request.escalate, additional, retry, call.access.full, call.access.network)
        files = _writable_files(request, call, cwd)
        keys = [("command", request.argv, variables, str(cwd), *permissions, request.tty, request.stdin, place, files)]
        if self.commands.covers(keys):
            call.decided("approved_for_session", "user")
            return
        decisions: list[Any] = ["approved", "approved_for_session"]
        if amendment is not None:
            accepted = ReviewDecision(Decision.APPROVED, execpolicy_amendment=amendment)
            decisions.append(to_wire(accepted))
        decision = await call.ask(
            ExecApprovalRequestEvent(
                call_id=call.call_id,
                turn_id=call.turn_id,
                **shown_command(request),
                cwd=str(cwd),
                started_at_ms=_now_ms(),
                reason=request.justification or reason,
                proposed_execpolicy_amendment=amendment,
                additional_permissions=additional_to_wire(additional),
                available_decisions=(*decisions, "denied", "abort"),
                precaution=precaution,
                without_sandbox=retry or request.escalate == SandboxPermissions.REQUIRE_ESCALATED,
                environment_id=place,
            )
        )
        if not decision.approved:
            raise ToolRefused(decision.message or _REJECTED)
        self.commands.remember(keys, decision)
        if decision.execpolicy_amendment is not None:
            self._remember(
                call, lambda policy, facts: policy.remember_prefix(decision.execpolicy_amendment or (), facts)
            )

    async def host(self, target: NetworkTarget, request: CommandRequest, call: Caller, cwd: Path) -> bool:
        """Return whether a command may reach a host that the permission profile does not mention.

        The answers of the session are checked first, then the policies. If these do not decide, the user is asked, if the
        approval policy allows that. Connections to the same host, port and protocol share one question.

        Raises:
            HostRefused: The user refused.
        """
        key = (target.host, target.port, target.protocol)
        if key in self._hosts:
            return self._hosts[key]
        verdict, judge = self._verdict(target, call.turn)
        if verdict is Verdict.FORBID and judge is not None:
            call.refused(judge_actor(judge), f"the host {target.host} is forbidden")
        if verdict is Verdict.ALLOW or verdict is Verdict.FORBID:
            return verdict is Verdict.ALLOW
        if not may_ask_about_hosts(call.approval_policy):
            call.refused(policy_actor(call.approval_policy), f"no rule allows the host {target.host}")
            return False
        while (waiting := self._asking.get(key)) is not None:
            shared = await asyncio.shield(waiting)
            if shared is not None:  # None if the command that asked has ended
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
        return decision.approved  # an abort, or the end of the turn during the question, refuses only the host

    async def _ask_host(
        self, target: NetworkTarget, key: tuple[str, int, str], request: CommandRequest, call: Caller, cwd: Path
    ) -> ReviewDecision:
        amendments = tuple({"host": target.host, "action": action} for action in ("allow", "deny"))
        offered = [{"network_policy_amendment": {"network_policy_amendment": amendment}} for amendment in amendments]
        decision = await call.ask(
            ExecApprovalRequestEvent(
                call_id=call.call_id,
                turn_id=call.turn_id,
                command=("network-access", f"{target.protocol}://{_url_host(target.host)}:{target.port}"),
                cwd=str(cwd),
                started_at_ms=_now_ms(),
                reason=f'`{_shown_text(request, _shown_argv(request))}` wants to reach "{target.host}", which no rule allows',
                network_approval_context={"host": target.host, "protocol": target.protocol},
                proposed_network_policy_amendments=amendments,
                available_decisions=("approved", "approved_for_session", *offered, "denied", "abort"),
            )
        )
        rule = decision.network_amendment
        if rule is not None:
            allow = rule.get("action") == "allow"
            self._hosts[key] = allow
            self._remember(call, lambda policy, facts: policy.remember_host(target, facts, allow=allow))
            return ReviewDecision(Decision.APPROVED if allow else Decision.DENIED)
        if decision.decision is Decision.APPROVED_FOR_SESSION:
            self._hosts[key] = True
        return decision

    def _verdict(self, target: NetworkTarget, facts: TurnFacts) -> tuple[Verdict | None, CommandPolicy | None]:
        worst: Verdict | None = None
        judge: CommandPolicy | None = None
        for policy in self._policies:
            try:
                verdict = policy.judge_network(target, facts)
            except Exception:  # a broken policy must not let anything through
                return Verdict.FORBID, policy
            if verdict is not None and (worst is None or verdict > worst):
                worst, judge = verdict, policy
        return worst, judge

    def _remember(self, call: Caller, remember: Callable[[CommandPolicy, TurnFacts], str]) -> None:
        """Let every policy that can save an answer do so. If that fails, the answer applies once, and the model is told."""
        for policy in self._policies:
            try:
                confirmation = remember(policy, call.turn)
                if confirmation:
                    call.note(confirmation)
            except CodexError as error:
                call.note(f"The rule could not be saved, so it applies only once: {error}")
            except Exception as error:  # a plugin may raise anything, and the command was approved anyway
                call.note(f"The rule could not be saved: {policy.name} failed: {described(error)}")


async def ask_for_permissions(
    permissions: AdditionalPermissions, reason: str | None, call: Caller
) -> tuple[AdditionalPermissions, str]:
    """Ask whether the turn or the session may have additional permissions. Granted permissions take effect immediately.

    Returns:
        The granted permissions and their duration, ``turn`` or ``session``. They are empty if the user refused.

    Raises:
        ToolRefused: The approval policy does not allow the question, or the profile denies some of the permissions.
    """
    policy = call.approval_policy
    if policy is ApprovalPolicy.NEVER or (isinstance(policy, GranularApproval) and not policy.request_permissions):
        refusal = ToolRefused(
            "additional permissions cannot be requested under this approval policy; work without them"
        )
        call.refused(policy_actor(policy), str(refusal))
        raise refusal
    try:
        widened_access(permissions, call)
    except ValueError as error:
        call.refused(Actor(role="permissions"), str(error))
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
            environment_id=named_place(call),
        )
    )
    granted = (decision.granted or AdditionalPermissions()).within(asked)
    session = decision.decision is Decision.APPROVED_FOR_SESSION
    if granted and decision.approved:
        call.grant(granted, session)
        return granted, "session" if session else "turn"
    return AdditionalPermissions(), "turn"


def named_place(call: Caller) -> str | None:
    """Return the environment of a call, for clients, or None on this machine."""
    place = call.turn.environment_id
    return None if place == LOCAL_ENVIRONMENT else place


def widened_access(additional: AdditionalPermissions, call: Caller) -> FileAccess:
    """Return the turn's access with additional permissions.

    Raises:
        ValueError: The profile denies some of them, or they would make protected paths writable.
    """
    access = call.resolve(call.permissions.widened(additional, call.access, call.cwd))
    for entry in additional.entries:
        if isinstance(entry.path, AbsolutePath) and entry.access is AccessMode.WRITE:
            path = call.cwd / (entry.path.path if access.elsewhere else home_expanded(entry.path.path))
            if not access.may_write(path):
                raise ValueError(f"{path} decides what may be done, or leads there, and stays read-only")
    return access


def _absolute(permissions: AdditionalPermissions, cwd: Path) -> AdditionalPermissions:
    """Return the permissions with absolute paths, so that the user sees exactly which paths are meant."""
    entries = (
        FileEntry(AbsolutePath(os.path.normpath(cwd / home_expanded(entry.path.path))), entry.access)
        if isinstance(entry.path, AbsolutePath)
        else entry
        for entry in permissions.entries
    )
    return AdditionalPermissions(tuple(entries), permissions.network)


def _writable_files(request: CommandRequest, call: Caller, cwd: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the state of the files that a command names and commands can write.

    An answer for the session no longer covers them after another command has rewritten them. Files that programs read
    implicitly, as ``make`` and ``python -m`` do, are not included.
    """
    if call.access.elsewhere:
        return ()
    words = dict.fromkeys(word for part in request.argv for word in _words(part))
    places = {word: Path(os.path.normpath(cwd / home_expanded(word))) for word in words}
    folders = [cwd, *(place for place in places.values() if _mode(place, stat.S_ISDIR))]  # a script may change to them
    if len(folders) * len(words) > _MOST_PLACES:
        return (("", 0, time.time_ns()),)  # no other command is like this one
    found = []
    for path in dict.fromkeys(
        Path(os.path.normpath(folder / home_expanded(word))) for folder in folders for word in words
    ):
        status = _mode(path, stat.S_ISREG)
        if status is not None and (call.access.may_write(path) or call.access.may_write(path.resolve())):
            found.append((str(path), status.st_ino, status.st_ctime_ns))
    return tuple(found)


def _mode(path: Path, is_kind: Callable[[int], bool]) -> os.stat_result | None:
    """Return the status of a path if it exists and is of this kind."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status if is_kind(status.st_mode) else None


def _words(part: str) -> list[str]:
    """Return the possible file names in a word of a command or in a script, without files that it writes."""
    import shlex

    script = _HERE.sub("", _WRITTEN.sub(" ", part))
    with contextlib.suppress(ValueError):  # a quote that is not closed
        return [part, *shlex.split(script), *_WORD.findall(script)]
    return [part, *_WORD.findall(script)]


def _shown_argv(request: CommandRequest) -> tuple[str, ...]:
    """Return the command for display: with the variables that the call sets, in the syntax of ``env``."""
    variables = tuple(f"{name}={value}" for name, value in request.env.items() if PLAIN_TERMINAL.get(name) != value)
    return ("env", *variables, *request.argv) if variables else request.argv


def shown_command(request: CommandRequest) -> dict[str, Any]:
    """Return the fields with which events show a command: ``command``, and ``parsed_cmd`` in the form that clients display."""
    argv = _shown_argv(request)
    actions = request.actions if argv is request.argv else None  # the variables of a call may change what it does
    return {"command": argv, "parsed_cmd": actions or ({"type": "unknown", "cmd": _shown_text(request, argv)},)}


def _shown_text(request: CommandRequest, argv: tuple[str, ...]) -> str:
    import shlex

    return shlex.join(argv) if request.script is None or argv is not request.argv else request.script


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _now_ms() -> int:
    return int(time.time() * 1000)
