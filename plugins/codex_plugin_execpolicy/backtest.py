"""Judges the commands of recorded sessions again, to show the effect of changed rules."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from codex_framework import ApprovalPolicy, CodexError, CommandRequest, SandboxPolicy, TurnFacts, Verdict
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import DangerFullAccess, GranularApproval, ReadOnly, WorkspaceWrite
from codex_framework.contract.value import Value
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_execpolicy.layers import LoadedRules
from codex_plugin_execpolicy.verdicts import judged_by

__all__ = ["Judged", "Overrides", "replay", "session_files"]

_MODES: Mapping[str, Callable[[], SandboxPolicy]] = {
    "read-only": ReadOnly,
    "workspace-write": WorkspaceWrite,
    "danger-full-access": DangerFullAccess,
}


class Overrides(Value):
    """Policies to use instead of the recorded ones."""

    approval_policy: ApprovalPolicy | None = None
    sandbox_policy: SandboxPolicy | None = None

    @classmethod
    def read(cls, approval_policy: str | None, sandbox: str | None) -> Self:
        """Return the policies given on the command line.

        Raises:
            CodexError: There is no such policy.
        """
        if approval_policy is not None and approval_policy not in list(ApprovalPolicy):
            raise _no_such("approval policy", approval_policy, list(ApprovalPolicy))
        if sandbox is not None and sandbox not in _MODES:
            raise _no_such("sandbox mode", sandbox, list(_MODES))
        return cls(
            None if approval_policy is None else ApprovalPolicy(approval_policy),
            None if sandbox is None else _MODES[sandbox](),
        )


def _no_such(what: str, value: str, known: list[Any]) -> CodexError:
    hint = f"Use one of {', '.join(map(str, known))}."
    return CodexError(f"there is no {what} {value!r}", slug="exec-backtest", hint=hint)


class Judged(Value, kw_only=True):
    """The hypothetical decision about a recorded command.

    Attributes:
        outcome: ``run``, ``ask`` or ``refuse``.
    """

    session: str
    time: str
    argv: tuple[str, ...]
    outcome: str
    reason: str

    def line(self) -> str:
        """Return a line for display."""
        why = f"  ({self.reason})" if self.reason else ""
        return f"{self.outcome:6}  {self.session}  {shlex.join(self.argv)}{why}"

    def wire(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "session": self.session,
            "timestamp": self.time,
            "command": list(self.argv),
            "outcome": self.outcome,
            "reason": self.reason,
        }


def session_files(codex_home: Path, named: Iterable[str]) -> list[Path]:
    """Return the rollout files of sessions, given by file or id, or of all sessions by default.

    Raises:
        CodexError: A session is not found, or no session exists.
    """
    stored = sorted(
        file for folder in ("sessions", "archived_sessions") for file in (codex_home / folder).rglob("rollout-*.jsonl")
    )
    names = list(named)
    if not names and not stored:
        hint = "Name files, or set CODEX_HOME to a folder with sessions."
        raise CodexError(f"there are no recorded sessions in {codex_home}", slug="exec-backtest", hint=hint)
    files = stored if not names else []
    for name in names:
        is_file = os.path.isfile(name)  # noqa: PTH113  # pathlib raises for a name that is too long
        found = [Path(name)] if is_file else [file for file in stored if file.stem.endswith(f"-{name}")]
        if not found:
            hint = "Name a file, or the id of a session."
            raise CodexError(f"there is no recorded session {name!r}", slug="exec-backtest", hint=hint)
        files.extend(found)
    return files


def replay(files: Iterable[Path], overrides: Overrides, rules_in: Callable[[Path], LoadedRules]) -> Iterator[Judged]:
    """Yield every command of the sessions with its decision.

    Args:
        rules_in: Returns the rules that apply in a folder.

    Raises:
        CodexError: A file cannot be read.
    """
    for file in files:
        turn = _Turn()
        for line in _lines(file):
            payload = line.get("payload")
            if not isinstance(payload, Mapping):
                continue
            if line.get("type") == "turn_context":
                turn = _Turn.read(payload)
            request = _request(payload) if line.get("type") == "response_item" else None
            if request is None:
                continue
            facts = turn.facts(overrides)
            outcome, reason = _outcome(request, facts, rules_in(facts.cwd))
            yield Judged(
                session=file.stem,
                time=str(line.get("timestamp", "")),
                argv=request.argv,
                outcome=outcome,
                reason=reason,
            )


class _Turn(Value):
    cwd: Path = Path("/")
    approval_policy: ApprovalPolicy | GranularApproval = ApprovalPolicy.ON_REQUEST
    sandbox_policy: SandboxPolicy = ReadOnly()

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        """Return the recorded settings of a turn. Unknown values count as the default."""
        from codex_framework.contract.protocol.wire import WireError, read

        turn = cls(Path(str(payload.get("cwd") or "/")))
        for name, kind in (
            ("approval_policy", ApprovalPolicy | GranularApproval),
            ("sandbox_policy", SandboxPolicy),
        ):
            try:
                turn = turn.evolve(**{name: read(kind, payload.get(name))})  # type: ignore[arg-type]  # unions are read too
            except WireError:
                continue
        return turn

    def facts(self, overrides: Overrides) -> TurnFacts:
        return TurnFacts(
            approval_policy=overrides.approval_policy or self.approval_policy,
            permissions=permissions_of(overrides.sandbox_policy or self.sandbox_policy),
            cwd=self.cwd,
            config={},
        )


def _lines(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with open(file, "rb", opener=open_regular) as lines:
            for line in lines:
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):  # an incomplete line, or a line that does not belong to a session
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError as error:
        fact = f"the session {file} cannot be read: {error.strerror or error}"
        raise CodexError(fact, slug="exec-backtest", hint="Name a readable file.") from error


def _request(payload: Mapping[str, Any]) -> CommandRequest | None:
    """Return the command in a recorded call of a command tool, or None for anything else."""
    if payload.get("type") == "local_shell_call":
        action = payload.get("action")
        return _with_argv(action.get("command"), {}) if isinstance(action, Mapping) else None
    if payload.get("type") != "function_call":
        return None
    try:
        arguments = json.loads(str(payload.get("arguments")))
    except (ValueError, RecursionError):  # a mistake of the model, which the tool refused
        return None
    if not isinstance(arguments, Mapping):
        return None
    match payload.get("name"):
        case "shell" | "container.exec" | "local_shell":
            return _with_argv(arguments.get("command"), arguments)
        case "shell_command":
            return _with_script(arguments.get("command"), arguments)
        case "exec_command":
            return _with_script(arguments.get("cmd"), arguments)
        case _:
            return None


def _with_script(script: object, arguments: Mapping[str, Any]) -> CommandRequest | None:
    return _with_argv(["bash", "-lc", script], arguments) if isinstance(script, str) else None


def _with_argv(argv: object, arguments: Mapping[str, Any]) -> CommandRequest | None:
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return None
    escalate = arguments.get("sandbox_permissions")
    return CommandRequest(argv=tuple(argv), escalate=escalate if isinstance(escalate, str) else "use_default")


def _outcome(request: CommandRequest, facts: TurnFacts, loaded: LoadedRules) -> tuple[str, str]:
    """Return the kernel's decision, by the verdict of this policy alone."""
    policy = facts.approval_policy
    verdict = judged_by(loaded.rules, request, facts, os.environ)
    if verdict is not None and verdict.verdict is Verdict.FORBID:
        return "refuse", verdict.reason
    if request.escalate != "use_default":
        if policy is ApprovalPolicy.ON_REQUEST or (isinstance(policy, GranularApproval) and policy.sandbox_approval):
            return "ask", "asks to run outside of the sandbox"
        return "refuse", "escalated permissions cannot be requested"
    if verdict is not None and verdict.verdict is Verdict.ASK:
        if _may_ask(policy, by_rule=verdict.by_rule):
            return "ask", verdict.reason
        return "refuse", verdict.reason or "nobody can be asked"
    return "run", ""


def _may_ask(policy: ApprovalPolicy | GranularApproval, *, by_rule: bool) -> bool:
    if isinstance(policy, GranularApproval):
        return policy.rules if by_rule else policy.sandbox_approval
    return policy is not ApprovalPolicy.NEVER
