"""What rules and judgement say of a whole command line: of every command in it, and in all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codex_framework import ApprovalPolicy, TurnFacts, Verdict
from codex_framework.contract.protocol.policies import DangerFullAccess, ExternalSandbox
from codex_framework.contract.value import Value
from codex_plugin_execpolicy.dangerous import is_dangerous, unwrapped
from codex_plugin_execpolicy.parsing import shell_commands, shell_script, words_of_all_commands
from codex_plugin_execpolicy.rules import RuleMatch, RuleSet, word_for
from codex_plugin_execpolicy.safe import is_known_safe

__all__ = ["Evaluation", "Line", "evaluate", "evaluate_line", "heuristic"]

Heuristic = Callable[[tuple[str, ...]], Verdict]


class Line(Value):
    """A command line taken apart.

    Attributes:
        commands: At least one. A script that is not simple is one command, the shell's.
        simple: Whether these are all words of all commands.
        partial: Whether the one command reads a heredoc besides.
        dangerous: Whether anything in it is dangerous, also where it is not simple.
        suspects: What seems to be a command anywhere in a script that is not simple. A word that is not known is empty.
    """

    commands: tuple[tuple[str, ...], ...]
    simple: bool
    expands: bool
    dangerous: bool
    partial: bool = False
    suspects: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def read(cls, argv: tuple[str, ...]) -> Line:
        """Take an argv apart, and the script in it."""
        script = shell_script(argv)
        if script is None:
            return cls((argv,), simple=True, expands=False, dangerous=_is_dangerous(argv))
        found = shell_commands(script)
        if found is None or found.partial:
            suspects = tuple(words_of_all_commands(script))
            return cls(
                (argv,) if found is None else found.commands,
                simple=False,
                expands=False,
                dangerous=any(map(_is_dangerous, suspects)),
                partial=found is not None,
                suspects=suspects,
            )
        return cls(
            found.commands, simple=True, expands=found.expands, dangerous=any(map(_is_dangerous, found.commands))
        )


_DEEPEST = 5
"""So many scripts within scripts are looked into."""


def _is_dangerous(command: tuple[str, ...], depth: int = 0) -> bool:
    """Whether it is dangerous itself, or the script of a shell in which something is."""
    script = shell_script(unwrapped(command))
    if script is not None and depth < _DEEPEST:
        return _hides_danger(script, depth + 1)
    return is_dangerous(command)


def _hides_danger(script: str, depth: int = 0) -> bool:
    return any(_is_dangerous(command, depth) for command in words_of_all_commands(script))


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


def evaluate_line(
    line: Line, rules: RuleSet, heuristic: Heuristic | None = None, *, resolve: bool = True
) -> Evaluation:
    """Apply the rules to a command line.

    Those that ask or forbid also hold for whatever seems to be a command in a script that is not simple: a redirection or a loop
    around it must not hide it. Those that allow hold for certain words only.
    """
    found = evaluate(line.commands, rules, heuristic, resolve=resolve)
    hidden = [
        match
        for suspect in line.suspects
        for match in rules.matches(suspect, resolve=resolve)
        if match.decision is not Verdict.ALLOW and match not in found.matches
    ]
    return Evaluation((*found.matches, *hidden))


def heuristic(line: Line, facts: TurnFacts, *, escalates: bool) -> Heuristic:
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
        dangerous = _is_dangerous(command) or (not line.simple and line.dangerous)
        return Verdict.ASK if asked or dangerous else Verdict.ALLOW

    return judged
