"""The roles that decide: command policies, approval reviewers, interceptors. They fail closed."""

from __future__ import annotations

import enum
from typing import Protocol, TypeVar, runtime_checkable

from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.value import Value

__all__ = [
    "CommandPolicy",
    "CommandVerdict",
    "NetworkPolicy",
    "Remembers",
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


class CommandPolicy(Protocol):
    """May this command run, ask, or never?"""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """An opinion, or None. An exception counts as ``FORBID``."""
        ...


@runtime_checkable
class NetworkPolicy(Protocol):
    """A command policy that has an opinion about hosts as well."""

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        """Whether a target that the permission profile says nothing of may be reached; None: no opinion. An exception forbids."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A command policy that can keep what a person allowed or refused, so that it need not be asked again."""

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        """Allow every command that begins with these words, from now on and for all sessions.

        Returns:
            What the model is told of it.

        Raises:
            CodexError: It cannot be kept.
        """
        ...

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        """Allow or deny a host for one protocol, from now on and for all sessions. Returns and raises as above."""
        ...
