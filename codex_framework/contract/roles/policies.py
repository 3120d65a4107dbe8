"""The role of a command policy: it decides about commands and hosts, and fails closed."""

from __future__ import annotations

import enum
from abc import abstractmethod

from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.value import Value

__all__ = ["CommandPolicy", "CommandVerdict", "Verdict"]


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


class CommandPolicy:
    """May this command run, ask, or never? May this host be reached? Keeps what people answer for good.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Return an opinion on a command, or None. If it raises, the command is forbidden."""
        raise NotImplementedError

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:  # noqa: ARG002  # for those who override it
        """Return an opinion on a target that the permission profile says nothing of, or None.

        If it raises, the target is forbidden.
        """
        return None

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:  # noqa: ARG002
        """Permanently allow every command that begins with these words.

        Returns:
            The sentence shown to the model. ``""`` if this policy saves nothing.

        Raises:
            CodexError: The rule cannot be saved.
        """
        return ""

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:  # noqa: ARG002
        """Permanently allow or deny a host for one protocol. Returns and raises as :meth:`remember_prefix`."""
        return ""
