"""The roles that decide: command policies, approval reviewers, interceptors. They fail closed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from codex_framework.protocol.events.command import ApplyPatchApprovalRequestEvent, ExecApprovalRequestEvent
from codex_framework.protocol.items import ResponseItem
from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, ReviewDecision, SandboxPolicy
from codex_framework.roles.networks import NetworkTarget
from codex_framework.roles.providers import ModelInfo, ModelRequest
from codex_framework.roles.sandboxes import FileAccess
from codex_framework.roles.tools import CommandRequest, ToolCall, ToolOutput
from codex_framework.value import Value

__all__ = [
    "ApprovalReviewer",
    "CommandFacts",
    "CommandPolicy",
    "CommandVerdict",
    "Delegate",
    "Interceptor",
    "NetworkPolicy",
    "Remembers",
    "ReviewFacts",
    "RunsAlone",
    "ThreadState",
    "Verdict",
]

T = TypeVar("T")


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
        by_rule: Whether a rule that somebody wrote asks, rather than judgement (granular approval tells them apart).
    """

    verdict: Verdict
    reason: str = ""
    bypass_sandbox: bool = False
    amendment: tuple[str, ...] | None = None
    by_rule: bool = False


class CommandFacts(Value, kw_only=True):
    """What a policy may know of the turn.

    Attributes:
        sandbox_policy: The nearest one to the permissions of the turn.
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


@runtime_checkable
class NetworkPolicy(Protocol):
    """A command policy that has an opinion about hosts as well."""

    def judge_network(self, target: NetworkTarget, facts: CommandFacts) -> Verdict | None:
        """Whether a target that the permission profile says nothing of may be reached; None: no opinion. An exception forbids."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A command policy that can keep what a person allowed or refused, so that it need not be asked again."""

    def remember_prefix(self, prefix: tuple[str, ...], facts: CommandFacts) -> str:
        """Allow every command that begins with these words, from now on and for all sessions.

        Returns:
            What the model is told of it.

        Raises:
            CodexError: It cannot be kept.
        """
        ...

    def remember_host(self, target: NetworkTarget, facts: CommandFacts, *, allow: bool) -> str:
        """Allow or deny a host for one protocol, from now on and for all sessions. Returns and raises as above."""
        ...


class ReviewFacts(Value, kw_only=True):
    """What a reviewer may know of the turn, and what it may use.

    Attributes:
        history: The conversation so far, as the model sees it.
        access: What commands may do without the approval.
        delegate: Runs one prompt in a thread of its own on this kernel: see :class:`Delegate`.
        state: The reviewer's own object for this thread, which goes with the thread.
        warn: Shows a sentence to the person.
    """

    thread_id: str
    turn_id: str
    cwd: Path
    approval_policy: ApprovalPolicy | GranularApproval
    access: FileAccess
    config: Mapping[str, Any]
    codex_home: Path
    model: ModelInfo
    history: Sequence[ResponseItem]
    delegate: Delegate
    state: ThreadState
    warn: Callable[[str], None]


class ThreadState(Protocol):
    """Keeps a plugin's own objects for one thread."""

    def __call__(self, key: object, factory: Callable[[], T]) -> T:
        """The object under ``key``, made at first use. One with ``aclose()`` is closed when the thread ends."""
        ...


class Delegate(Protocol):
    """A short-lived thread of its own: a model, its instructions and the prompt, and nothing else.

    It has no tools, no context of the workspace (no ``AGENTS.md``) and no history; nothing is kept on disk, nobody is asked, no
    notifier hears of it, and its tokens are not counted as the turn's. Interceptors see its requests as they see all others.
    """

    async def __call__(
        self,
        prompt: str,
        *,
        instructions: str,
        model: str | None = None,
        reasoning_effort: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Run one turn and return the model's last message; cancelling it ends the thread. Any number may run at once.

        Args:
            instructions: The base instructions.
            model: Another model of the same provider than the turn's.
            reasoning_effort: Another one than the turn's.
            output_schema: JSON schema that the provider holds the answer to.

        Raises:
            ThreadError: The turn failed, or said nothing.
        """
        ...


class ApprovalReviewer(Protocol):
    """Answers an approval in place of a person. The first answer wins."""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    async def review(
        self, request: ExecApprovalRequestEvent | ApplyPatchApprovalRequestEvent, facts: ReviewFacts
    ) -> ReviewDecision | None:
        """A decision, or None to leave it to the next one. An exception or a silence of 90 s counts as ``denied``.

        ``ReviewDecision.message`` is what the model reads of a refusal; with ``abort`` the turn ends, and people read it.
        """
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
