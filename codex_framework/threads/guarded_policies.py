"""Command policies, with checked calls: if a policy fails, the command is forbidden and a warning names the plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.commands import CommandRequest
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.roles.policies import CommandPolicy, CommandVerdict, Verdict
from codex_framework.loader.registry import Registry
from codex_framework.threads.faults import Label, check_type, error_text
from codex_framework.threads.notices import Notices
from codex_framework.toolkit.validation import validate

__all__ = ["GuardedPolicy", "guarded_policies"]

T = TypeVar("T")


def guarded_policies(registry: Registry, notices: Notices) -> tuple[CommandPolicy, ...]:
    """Return the command policies of a registry for one thread."""
    owners: Mapping[tuple[str, str], str] = registry.owners
    return tuple(
        GuardedPolicy(policy, owners.get(("command_policies", policy.name), ""), notices)
        for policy in registry.command_policies
    )


class GuardedPolicy(CommandPolicy):
    """One command policy with checked calls.

    Args:
        plugin: The plugin that offers it.
        notices: Receives the warnings about the policy.
    """

    def __init__(self, policy: CommandPolicy, plugin: str, notices: Notices) -> None:
        self.name = policy.name
        self.plugin = plugin
        self._policy = policy
        self._notices = notices
        self._label = Label("command policy", policy.name, plugin)

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Return the policy's opinion on a command."""
        judge = self._policy.judge
        try:
            verdict = judge(command, facts)
            return None if verdict is None else validate(verdict, CommandVerdict, "it", judge)
        except (Exception, SystemExit) as error:  # a broken policy must not let anything through
            self._tell("judge", error, judge, "The command is forbidden.")
            reason = f"rejected: command policy {self.name!r} failed: {error_text(error)}"
            return CommandVerdict(verdict=Verdict.FORBID, reason=reason)

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        """Return the policy's opinion on a host."""
        judge = self._policy.judge_network
        try:
            verdict = judge(target, facts)
            return None if verdict is None else check_type(verdict, Verdict, "it", judge)
        except (Exception, SystemExit) as error:  # as above
            self._tell("judge_network", error, judge, "The host is forbidden.")
            return Verdict.FORBID

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        """Let the policy save a rule. Raises what the policy raises."""
        return self._remember("remember_prefix", lambda: self._policy.remember_prefix(prefix, facts))

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        """Let the policy save a rule. Raises what the policy raises."""
        return self._remember("remember_host", lambda: self._policy.remember_host(target, facts, allow=allow))

    def _remember(self, method: str, save: Callable[[], str]) -> str:
        try:
            return check_type(save(), str, "it", getattr(self._policy, method))
        except CodexError:
            raise
        except Exception as error:  # a plugin may raise anything
            self._tell(method, error, getattr(self._policy, method), "The rule is not saved.")
            raise

    def _tell(self, method: str, error: BaseException, source: object, then: str) -> None:
        self._notices.tell(self._label.describe_failure(method, error, then=then, source=source))
