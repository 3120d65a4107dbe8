"""The verdict on a command, with its reason for the model or the user. Imported when the first command is judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework import ApprovalPolicy, CommandRequest, CommandVerdict, TurnFacts, Verdict
from codex_plugin_execpolicy.rules import PrefixRule, RuleMatch, RuleSet

if TYPE_CHECKING:
    from codex_plugin_execpolicy.belief import Belief
    from codex_plugin_execpolicy.judgement import Evaluation, Line

__all__ = ["judged_by"]

_QUOTES = str.maketrans("", "", "'\"\\\n")


def judged_by(
    rules: RuleSet, command: CommandRequest, facts: TurnFacts, environ: Mapping[str, str]
) -> CommandVerdict | None:
    """Return the verdict of some rules. The script of a command is parsed only if the verdict depends on it."""
    escalates = command.escalate != "use_default"
    if not rules and facts.approval_policy is not ApprovalPolicy.UNTRUSTED:
        if facts.approval_policy is ApprovalPolicy.NEVER:
            return None
        if not escalates and not _may_be_dangerous(command.argv):
            return None
    from codex_plugin_execpolicy.belief import Belief
    from codex_plugin_execpolicy.judgement import Line, evaluate_line, heuristic

    line = Line.read(command.argv, facts.shell)
    belief = Belief(command, facts, environ, shell=line.shell, commands=line.commands, expands=line.expands)
    found = evaluate_line(line, rules, heuristic(line, facts, belief, escalates=escalates), belief=belief)
    return _verdict(command, facts, line, rules, found, belief)


def _may_be_dangerous(words: tuple[str, ...]) -> bool:
    """Return quickly, before anything is parsed, whether there may be a forced ``rm``."""
    text = " ".join(words).translate(_QUOTES)
    return "rm" in text and "f" in text and "-" in text


def _verdict(
    command: CommandRequest, facts: TurnFacts, line: Line, rules: RuleSet, found: Evaluation, belief: Belief
) -> CommandVerdict | None:
    match found.decision:
        case Verdict.FORBID:
            return CommandVerdict(verdict=Verdict.FORBID, reason=_refusal(command.argv, found.rule))
        case Verdict.ASK if found.rule is not None:
            return CommandVerdict(verdict=Verdict.ASK, reason=_question(command.argv, found.rule), by_rule=True)
        case Verdict.ASK:
            precaution = command.escalate == "use_default" and facts.approval_policy is not ApprovalPolicy.UNTRUSTED
            amendment = _amendment(command, line, rules, found, belief)
            return CommandVerdict(verdict=Verdict.ASK, amendment=amendment, precaution=precaution)
        case _ if found.by_rules_alone:
            return CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)
        case _:
            untrusted = (
                facts.approval_policy is ApprovalPolicy.UNTRUSTED
            )  # under which a command without a verdict is asked about
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


def _amendment(
    command: CommandRequest, line: Line, rules: RuleSet, found: Evaluation, belief: Belief
) -> tuple[str, ...] | None:
    """Return a prefix to allow, with which the command would run: the model's proposal if it is valid, else the command itself."""
    from codex_plugin_execpolicy.amendments import is_banned
    from codex_plugin_execpolicy.judgement import evaluate

    if line.partial:
        return None
    wanted = command.prefix_rule
    if wanted and not is_banned(wanted):
        more = RuleSet()
        more.update(rules)
        more.add(PrefixRule(wanted[0], tuple((word,) for word in wanted[1:])))
        after = evaluate(line.commands, more, belief=belief)
        if after.decision is Verdict.ALLOW and all(more.matches(part) for part in line.commands):
            return wanted
    first = next((match.command for match in found.matches if match.decision is Verdict.ASK), None)
    return None if first is None or is_banned(first) or not belief.allows(first, first) else first
