"""The command policy ``execpolicy``: rules first, then heuristics (spec: command classification, exec rules)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import (
    CommandPolicy,
    CommandRequest,
    CommandVerdict,
    NetworkTarget,
    TurnFacts,
    Verdict,
)
from codex_framework.contract.errors import CodexError
from codex_plugin_execpolicy.layers import RuleLayers

if TYPE_CHECKING:
    from codex_plugin_execpolicy.rules import RuleSet

__all__ = ["ExecPolicy"]

_ELSEWHERE = "This session ignores the user's rules, so it applies only in other sessions."


class ExecPolicy(CommandPolicy):
    """Judges commands. There is one per kernel, shared by threads.

    Args:
        layers: The source of the rules.
        environ: The kernel's environment variables. By default, the variables of this process.
    """

    name = "execpolicy"

    def __init__(self, layers: RuleLayers | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._layers = layers or RuleLayers()
        self._environ = os.environ if environ is None else environ

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Return the verdict, or None if neither a rule nor a heuristic applies to the command."""
        from codex_plugin_execpolicy.verdicts import judged_by

        return judged_by(self._rules(facts), command, facts, self._environ)

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        """Return the decision of the rules about a host for its protocol, or None if no rule applies."""
        return self._rules(facts).network_decision(target.host, target.protocol)

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        """Add a rule to ``$CODEX_HOME/rules/default.rules``. It applies from the next command on, in all threads and processes.

        Raises:
            CodexError: The rule cannot be written, or another one overrides it.
        """
        import json
        import shlex

        from codex_plugin_execpolicy.amendments import allow_prefix

        home, rules = _home(facts), self._rules(facts)
        stricter = max((match.decision for match in rules.matches(prefix)), default=Verdict.ALLOW)
        if stricter is not Verdict.ALLOW:
            raise _override_error(f"`{shlex.join(prefix)}`", stricter)
        allow_prefix(home, prefix)
        shown = json.dumps(list(prefix), ensure_ascii=False)
        text = f"From now on, the user allows commands that start with these words. They run outside of the sandbox:\n- {shown}"
        return text if self._rules(facts).matches(prefix) else f"{text}\n{_ELSEWHERE}"

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        """Add a rule about the host for this protocol, like :meth:`remember_prefix`."""
        from codex_plugin_execpolicy.amendments import decide_host

        home, decision = _home(facts), self._rules(facts).network_decision(target.host, target.protocol)
        if allow and decision not in (None, Verdict.ALLOW):
            raise _override_error(f"{target.protocol} to {target.host}", decision)
        decide_host(home, target.host, target.protocol, allow=allow)
        done = "allows" if allow else "denies"
        text = f"From now on, the user {done} connections to {target.host} ({target.protocol})."
        known = self._rules(facts).network_decision(target.host, target.protocol)
        return text if known is (Verdict.ALLOW if allow else Verdict.FORBID) else f"{text} {_ELSEWHERE}"

    def _rules(self, facts: TurnFacts) -> RuleSet:
        return self._layers.at(facts.cwd, facts.codex_home, facts.config).rules


def _home(facts: TurnFacts) -> Path:
    if facts.codex_home is None:
        raise CodexError("there is no folder for saving rules", slug="exec-prefix", hint="Set CODEX_HOME.")
    return facts.codex_home


def _override_error(what: str, decision: Verdict) -> CodexError:
    does = "forbids" if decision is Verdict.FORBID else "asks about"
    hint = "Change that rule; `codex-framework execpolicy check` shows it."
    return CodexError(
        f"a rule {does} {what}, so a rule that allows it would have no effect", slug="exec-prefix", hint=hint
    )
