"""The roles that decide: command policies, approval reviewers, interceptors. They fail closed."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from codex_framework.protocol.events.command import ApplyPatchApprovalRequestEvent, ExecApprovalRequestEvent
from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision, SandboxPolicy
from codex_framework.roles.providers import ModelRequest
from codex_framework.roles.tools import CommandRequest, ToolCall, ToolOutput
from codex_framework.value import Value

__all__ = [
    "ApprovalReviewer",
    "CommandFacts",
    "CommandPolicy",
    "CommandVerdict",
    "Interceptor",
    "RunsAlone",
    "Verdict",
]


class Verdict(enum.IntEnum):
    """What a policy says of a command. The most severe verdict of all policies counts."""

    ALLOW = 0
    """May run in the sandbox without asking."""
    ASK = 1
    """Needs an approval; where nobody may be asked, it is refused."""
    FORBID = 2
    """Never runs."""


class CommandVerdict(Value, kw_only=True):
    """A policy's opinion.

    Attributes:
        reason: For the person (ask) or the model (forbid).
        bypass_sandbox: An allow that a rule states expressly: the command runs unconfined.
        amendment: A command prefix that, once allowed, would make this pass.
    """

    verdict: Verdict
    reason: str = ""
    bypass_sandbox: bool = False
    amendment: tuple[str, ...] | None = None


class CommandFacts(Value, kw_only=True):
    """What a policy may know of the turn.

    Attributes:
        codex_home: ``$CODEX_HOME``; None where the caller has none.
    """

    approval_policy: ApprovalPolicy | GranularApproval
    sandbox_policy: SandboxPolicy
    cwd: Path
    config: Mapping[str, Any]
    codex_home: Path | None = None


class CommandPolicy(Protocol):
    """May this command run, ask, or never?"""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    def judge(self, command: CommandRequest, facts: CommandFacts) -> CommandVerdict | None:
        """An opinion, or None. An exception counts as ``FORBID``."""
        ...


class ApprovalReviewer(Protocol):
    """Answers an approval in place of a person. The first answer wins."""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    async def review(self, request: ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent) -> ReviewDecision | None:
        """A decision, or None to leave it to the next one. An exception or a silence of 90 s counts as ``denied``."""
        ...


class Interceptor(Protocol):
    """Sees and may change what passes by. Ordered by ``order``, small numbers first."""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    @property
    def order(self) -> int:
        """Its place among the interceptors."""
        ...

    async def request(self, request: ModelRequest) -> ModelRequest:
        """Before each request to the model; return it, changed or not."""
        ...

    async def before_tool(self, call: ToolCall) -> ToolCall:
        """Before each call; return it, changed or not.

        Raises:
            ToolRefused: The call is not carried out; the text goes to the model.
        """
        ...

    async def after_tool(self, call: ToolCall, output: ToolOutput) -> ToolOutput:
        """After each call; return the output, changed or not."""
        ...


@runtime_checkable
class RunsAlone(Protocol):
    """An interceptor that makes something else of some calls, which must then not overlap with others."""

    def alone(self, call: ToolCall) -> bool:
        """Whether this call has to run alone although its tool is parallel-safe. Asked when the call is scheduled; cheap."""
        ...
