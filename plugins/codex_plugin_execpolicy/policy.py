"""The command policy ``execpolicy``: rules first, then judgement (spec: command classification, exec rules)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import (
    ApprovalPolicy,
    CommandPolicy,
    CommandRequest,
    CommandVerdict,
    NetworkTarget,
    TurnFacts,
    Verdict,
)
from codex_framework.contract.errors import CodexError
from codex_plugin_execpolicy.dangerous import may_be_dangerous
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.rules import PrefixRule, RuleMatch, RuleSet

if TYPE_CHECKING:
    from codex_plugin_execpolicy.judgement import Evaluation, Line

__all__ = ["ExecPolicy", "judged_by"]

_ELSEWHERE = "This session leaves the person's rules out, so it holds in others only."


class ExecPolicy(CommandPolicy):
    """Judges commands. One for each kernel; threads may share it."""

    name = "execpolicy"

    def __init__(self, layers: RuleLayers | None = None) -> None:
        self._layers = layers or RuleLayers()

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Its verdict; None where neither a rule nor suspicion speaks of the command."""
        return judged_by(self._rules(facts), command, facts)

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        """What the rules say of a host for its protocol; None where none speaks of it."""
        return self._rules(facts).network_decision(target.host, target.protocol)

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        """Add a rule to ``$CODEX_HOME/rules/default.rules``; it counts for the next command, in all threads and processes.

        Raises:
            CodexError: The rule cannot be written, or another one goes before it.
        """
        from codex_plugin_execpolicy.amendments import allow_prefix

        home, rules = _home(facts), self._rules(facts)
        stricter = max((match.decision for match in rules.matches(prefix)), default=Verdict.ALLOW)
        if stricter is not Verdict.ALLOW:
            raise _outweighed(f"`{shlex.join(prefix)}`", stricter)
        allow_prefix(home, prefix)
        shown = json.dumps(list(prefix), ensure_ascii=False)
        text = f"The person allows commands that begin with these words from now on. They run outside of the sandbox:\n- {shown}"
        return text if self._rules(facts).matches(prefix) else f"{text}\n{_ELSEWHERE}"

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        """Add a rule about the host for this protocol. As :meth:`remember_prefix`."""
        from codex_plugin_execpolicy.amendments import decide_host

        home, decision = _home(facts), self._rules(facts).network_decision(target.host, target.protocol)
        if allow and decision not in (None, Verdict.ALLOW):
            raise _outweighed(f"{target.protocol} to {target.host}", decision)
        decide_host(home, target.host, target.protocol, allow=allow)
        done = "allows" if allow else "denies"
        text = f"The person {done} connections to {target.host} ({target.protocol}) from now on."
        known = self._rules(facts).network_decision(target.host, target.protocol)
        return text if known is (Verdict.ALLOW if allow else Verdict.FORBID) else f"{text} {_ELSEWHERE}"

    def _rules(self, facts: TurnFacts) -> RuleSet:
        return self._layers.at(facts.cwd, facts.codex_home, facts.config).rules


def _home(facts: TurnFacts) -> Path:
    if facts.codex_home is None:
        raise CodexError("there is no folder to keep rules in", slug="exec-prefix", hint="Set CODEX_HOME.")
    return facts.codex_home


def _outweighed(what: str, decision: Verdict) -> CodexError:
    does = "forbids" if decision is Verdict.FORBID else "asks about"
    hint = "Change that rule; `codex-framework execpolicy check` shows it."
    return CodexError(f"a rule {does} {what}: one that allows it would change nothing", slug="exec-prefix", hint=hint)


def judged_by(rules: RuleSet, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
    """The verdict by certain rules. The script of a command is only taken apart where something depends on it."""
    escalates = command.escalate != "use_default"
    if not rules and facts.approval_policy is not ApprovalPolicy.UNTRUSTED:
        if facts.approval_policy is ApprovalPolicy.NEVER:
            return None
        if not escalates and not may_be_dangerous(command.argv):
            return None
    from codex_plugin_execpolicy.judgement import Line, evaluate_line, heuristic

    line = Line.read(command.argv)
    found = evaluate_line(line, rules, heuristic(line, facts, escalates=escalates))
    return _verdict(command, facts, line, rules, found)


def _verdict(
    command: CommandRequest, facts: TurnFacts, line: Line, rules: RuleSet, found: Evaluation
) -> CommandVerdict | None:
    match found.decision:
        case Verdict.FORBID:
            return CommandVerdict(verdict=Verdict.FORBID, reason=_refusal(command.argv, found.rule))
        case Verdict.ASK if found.rule is not None:
            return CommandVerdict(verdict=Verdict.ASK, reason=_question(command.argv, found.rule), by_rule=True)
        case Verdict.ASK:
            return CommandVerdict(verdict=Verdict.ASK, amendment=_amendment(command, line, rules, found))
        case _ if found.by_rules_alone:
            return CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)
        case _:
            untrusted = facts.approval_policy is ApprovalPolicy.UNTRUSTED  # where no opinion means a question
            return CommandVerdict(verdict=Verdict.ALLOW) if untrusted else None


def _refusal(argv: tuple[str, ...], rule: RuleMatch | None) -> str:
    shown = f"`{shlex.join(argv)}` rejected"
    if rule is None or rule.prefix is None:
        return f"{shown}: blocked by policy"
    if rule.justification is not None:
        return f"{shown}: {rule.justification}"
    return f"{shown}: policy forbids commands starting with `{shlex.join(rule.prefix)}`"


def _question(argv: tuple[str, ...], rule: RuleMatch) -> str:
    shown = f"`{shlex.join(argv)}` requires approval"
    return f"{shown} by policy" if rule.justification is None else f"{shown}: {rule.justification}"


def _amendment(command: CommandRequest, line: Line, rules: RuleSet, found: Evaluation) -> tuple[str, ...] | None:
    """A prefix that, once allowed, would let the command run: the model's proposal if it is good, else the command itself."""
    from codex_plugin_execpolicy.amendments import is_banned
    from codex_plugin_execpolicy.judgement import evaluate

    if line.partial:
        return None
    wanted = command.prefix_rule
    if wanted and not is_banned(wanted):
        more = RuleSet()
        more.update(rules)
        more.add(PrefixRule(wanted[0], tuple((word,) for word in wanted[1:])))
        after = evaluate(line.commands, more)
        if after.decision is Verdict.ALLOW and all(more.matches(part) for part in line.commands):
            return wanted
    first = next((match.command for match in found.matches if match.decision is Verdict.ASK), None)
    return None if first is None or is_banned(first) else first
