"""What rules and judgement say of a whole command line: of every command in it, and in all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codex_framework import ApprovalPolicy, CommandFacts, Verdict
from codex_framework.protocol.policies import DangerFullAccess, ExternalSandbox
from codex_framework.value import Value
from codex_plugin_execpolicy.dangerous import is_dangerous
from codex_plugin_execpolicy.parsing import shell_commands, shell_script, words_of_all_commands
from codex_plugin_execpolicy.rules import RuleMatch, RuleSet, word_for
from codex_plugin_execpolicy.safe import is_known_safe

__all__ = ["Evaluation", "Line", "evaluate", "heuristic"]

Heuristic = Callable[[tuple[str, ...]], Verdict]


class Line(Value):
    """A command line taken apart.

    Attributes:
        commands: At least one. A script that is not simple is one command, the shell's.
        simple: Whether these are all words of all commands.
        partial: Whether the one command reads a heredoc besides.
        dangerous: Whether anything in it is dangerous, also where it is not simple.
    """

    commands: tuple[tuple[str, ...], ...]
    simple: bool
    expands: bool
    dangerous: bool
    partial: bool = False

    @classmethod
    def read(cls, argv: tuple[str, ...]) -> Line:
        """Take an argv apart, and the script in it."""
        script = shell_script(argv)
        if script is None:
            return cls((argv,), simple=True, expands=False, dangerous=is_dangerous(argv))
        found = shell_commands(script)
        if found is None:
            return cls((argv,), simple=False, expands=False, dangerous=_hides_danger(script))
        if found.partial:
            return cls(found.commands, simple=False, expands=False, dangerous=_hides_danger(script), partial=True)
        return cls(found.commands, simple=True, expands=found.expands, dangerous=any(map(is_dangerous, found.commands)))


def _hides_danger(script: str) -> bool:
    return any(is_dangerous(command) for command in words_of_all_commands(script))


class Evaluation(Value):
    """What was found for each command, in order; a command can match several rules."""

    matches: tuple[RuleMatch, ...]

    @property
    def decision(self) -> Verdict | None:
        """The most severe decision; None where nothing was found."""
        return max((match.decision for match in self.matches), default=None)

    @property
    def rule(self) -> RuleMatch | None:
        """The rule that makes the decision: of those as severe, the one with a justification, then the longest prefix."""
        found = [match for match in self.matches if match.prefix is not None and match.decision is self.decision]
        return max(found, key=lambda match: (match.justification is not None, len(match.prefix or ())), default=None)

    @property
    def by_rules_alone(self) -> bool:
        """Whether a rule was found for every command."""
        return all(match.prefix is not None for match in self.matches)

    def wire(self) -> dict[str, Any]:
        """As ``execpolicy check`` prints it."""
        answer: dict[str, Any] = {"matchedRules": [match.wire() for match in self.matches]}
        if self.decision is not None:
            answer["decision"] = word_for(self.decision)
        return answer


def evaluate(
    commands: tuple[tuple[str, ...], ...], rules: RuleSet, heuristic: Heuristic | None = None, *, resolve: bool = True
) -> Evaluation:
    """Apply the rules to every command; to one without a rule the heuristic, if there is one."""
    matches: list[RuleMatch] = []
    for command in commands:
        found = rules.matches(command, resolve=resolve)
        if not found and heuristic is not None:
            found = (RuleMatch(command=command, decision=heuristic(command)),)
        matches.extend(found)
    return Evaluation(tuple(matches))


def heuristic(line: Line, facts: CommandFacts, *, escalates: bool) -> Heuristic:
    """The judgement of commands that no rule speaks of, under the policies of a turn.

    Under ``never`` nobody can be asked, so everything may run: what the sandbox allows is what it may do. The real Codex refuses
    a forced ``rm`` even there; but in the workspace, where it may write anyway, a sandboxed ``rm -rf build`` is ordinary work.
    """
    policy = facts.approval_policy
    open_air = isinstance(facts.sandbox_policy, DangerFullAccess | ExternalSandbox)
    asked = policy is ApprovalPolicy.UNTRUSTED or (
        policy not in (ApprovalPolicy.NEVER, ApprovalPolicy.ON_FAILURE) and escalates and not open_air
    )

    def judged(command: tuple[str, ...]) -> Verdict:
        if policy is ApprovalPolicy.UNTRUSTED and line.simple and is_known_safe(command, expands=line.expands):
            return Verdict.ALLOW
        if policy is ApprovalPolicy.NEVER:
            return Verdict.ALLOW
        dangerous = is_dangerous(command) or (not line.simple and line.dangerous)
        return Verdict.ASK if asked or dangerous else Verdict.ALLOW

    return judged
