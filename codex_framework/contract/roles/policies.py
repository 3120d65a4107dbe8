"""The role of a command policy, which decides about commands and hosts and fails closed."""

from __future__ import annotations

import enum
from abc import abstractmethod

from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.value import Value

__all__ = ["CommandPolicy", "CommandVerdict", "Verdict"]


class Verdict(enum.IntEnum):
    """A policy's verdict on a command. The most severe verdict of all policies is used."""

    ALLOW = 0
    """May run in the sandbox without asking."""
    ASK = 1
    """Requires approval. If no user can be asked, the command is refused, unless the question was a precaution."""
    FORBID = 2
    """Never runs."""


class CommandVerdict(Value, kw_only=True):
    """A policy's opinion.

    Attributes:
        reason: The reason for the user (ask) or the model (forbid).
        bypass_sandbox: Whether the command runs unconfined, because a rule explicitly allows it.
        amendment: A command prefix that would allow this command if it were allowed.
        by_rule: Whether a written rule requires the approval, rather than a heuristic. Granular approval distinguishes the two.
        precaution: Whether the approval is only a precaution. If no user can be asked, the command runs in the same sandbox, as
            under the approval policy ``never``.
    """

    verdict: Verdict
    reason: str = ""
    bypass_sandbox: bool = False
    amendment: tuple[str, ...] | None = None
    by_rule: bool = False
    precaution: bool = False


class CommandPolicy:
    """Decides about commands and hosts, and saves permanent answers of the user.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Return an opinion on a command, or None. If it raises, the command is forbidden."""
        raise NotImplementedError

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:  # noqa: ARG002  # for those who override it
        """Return an opinion on a target that matches no rule of the permission profile, or None.

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
