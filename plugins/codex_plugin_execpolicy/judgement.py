"""The decision of rules and heuristics about a command line: about every command in it, and in total."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from codex_framework import ApprovalPolicy, TurnFacts, Verdict
from codex_framework.contract.protocol.policies import DangerFullAccess, ExternalSandbox
from codex_framework.contract.value import Value
from codex_lib_shell_script.parsing import shell_commands, shell_script, suspected_script, words_of_all_commands
from codex_plugin_execpolicy.belief import Belief
from codex_plugin_execpolicy.dangerous import dangerous_commands
from codex_plugin_execpolicy.rules import RuleMatch, RuleSet, word_for
from codex_plugin_execpolicy.safe import is_known_safe
from codex_plugin_execpolicy.wrappers import Search, TooManyCommandsError

__all__ = ["Evaluation", "Line", "evaluate", "evaluate_line", "heuristic"]

Heuristic = Callable[[tuple[str, ...]], Verdict]


class Line(Value):
    """A parsed command line.

    Attributes:
        commands: The commands, at least one. A script that is not simple is one command: the shell's.
        simple: Whether these are all commands with all their words.
        partial: Whether the only command also reads a heredoc.
        suspects: Everything that looks like a command in a script that is not simple. An unknown word is empty.
        shell: The shell of the script. None if there is no script.
    """

    commands: tuple[tuple[str, ...], ...]
    simple: bool
    expands: bool
    partial: bool = False
    suspects: tuple[tuple[str, ...], ...] = ()
    shell: str | None = None

    @classmethod
    def read(cls, argv: tuple[str, ...], own_shell: str = "") -> Line:
        """Parse an argv, and the script in it.

        Args:
            own_shell: The path of the user's shell.
        """
        script = shell_script(argv, own_shell)
        if script is None:
            hidden = suspected_script(argv)
            suspects = () if hidden is None else tuple(words_of_all_commands(hidden))
            return cls((argv,), simple=not suspects, expands=False, suspects=suspects)
        found = shell_commands(script)
        if found is None or found.partial:
            suspects = tuple(words_of_all_commands(script))
            return cls(
                (argv,) if found is None else found.commands,
                simple=False,
                expands=False,
                partial=found is not None,
                suspects=suspects,
                shell=argv[0],
            )
        return cls(found.commands, simple=True, expands=found.expands, shell=argv[0])


class Evaluation(Value):
    """The matches for each command, in order. A command can match several rules."""

    matches: tuple[RuleMatch, ...]

    @property
    def decision(self) -> Verdict | None:
        """The most severe decision. None if there are no matches."""
        return max((match.decision for match in self.matches), default=None)

    @property
    def rule(self) -> RuleMatch | None:
        """The deciding rule: among equally severe ones, one with a justification, then the one with the longest prefix."""
        decision = self.decision
        found = [match for match in self.matches if match.prefix is not None and match.decision is decision]
        return max(found, key=lambda match: (match.justification is not None, len(match.prefix or ())), default=None)

    @property
    def by_rules_alone(self) -> bool:
        """Whether every command matches a rule."""
        return all(match.prefix is not None for match in self.matches)

    def wire(self) -> dict[str, Any]:
        """Return the output of ``execpolicy check``."""
        answer: dict[str, Any] = {"matchedRules": [match.wire() for match in self.matches]}
        if self.decision is not None:
            answer["decision"] = word_for(self.decision)
        return answer


def evaluate(
    commands: tuple[tuple[str, ...], ...],
    rules: RuleSet,
    heuristic: Heuristic | None = None,
    *,
    resolve: bool = True,
    belief: Belief | None = None,
) -> Evaluation:
    """Apply the rules to every command, and the heuristic, if there is one, to commands without a rule.

    Args:
        belief: The trust in the commands. A rule that allows an untrusted command is ignored.
    """
    matches: list[RuleMatch] = []
    for command in commands:
        found = rules.matches(command, resolve=resolve)
        if belief is not None:
            found = tuple(match for match in found if _is_believed(match, belief))
        if not found and heuristic is not None:
            found = (RuleMatch(command=command, decision=heuristic(command)),)
        matches.extend(found)
    return Evaluation(tuple(matches))


def _is_believed(match: RuleMatch, belief: Belief) -> bool:
    return match.decision is not Verdict.ALLOW or belief.allows(match.command, match.prefix or ())


def evaluate_line(
    line: Line,
    rules: RuleSet,
    heuristic: Heuristic | None = None,
    *,
    resolve: bool = True,
    belief: Belief | None = None,
) -> Evaluation:
    """Apply the rules to a command line.

    Rules that ask or forbid also apply to everything that looks like a command in a script that is not simple, so that a
    redirection, a loop or a program like ``env`` cannot hide it. Rules that allow apply only if the words are certain.
    """
    found = evaluate(line.commands, rules, heuristic, resolve=resolve, belief=belief)
    if rules.strictest is Verdict.ALLOW:
        return found
    hidden = dict.fromkeys(_hidden_matches(line, rules, resolve=resolve))
    return Evaluation((*found.matches, *(match for match in hidden if match not in found.matches)))


def _hidden_matches(line: Line, rules: RuleSet, *, resolve: bool) -> Iterator[RuleMatch]:
    """Yield the rules that ask or forbid, of commands that are hidden in a line. The strictest one counts if there are too many."""
    try:
        for command in (*line.suspects, *Search().within(*line.commands, *line.suspects)):
            for match in rules.matches(command, resolve=resolve):
                if match.decision is not Verdict.ALLOW:
                    yield match
    except TooManyCommandsError:
        yield RuleMatch(
            command=line.commands[0],
            decision=rules.strictest,
            prefix=(),
            justification="it contains too many commands to compare all of them with the rules",
        )


def heuristic(line: Line, facts: TurnFacts, belief: Belief, *, escalates: bool) -> Heuristic:
    """Return the heuristic for commands without a rule, under the policies of a turn.

    Under ``never`` the user cannot be asked, so everything may run, limited by the sandbox. Codex refuses a forced ``rm`` even
    then; but in the workspace, which is writable anyway, a sandboxed ``rm -rf build`` is ordinary work.
    """
    policy = facts.approval_policy
    open_air = isinstance(facts.sandbox_policy, DangerFullAccess | ExternalSandbox)
    asked = policy is ApprovalPolicy.UNTRUSTED or (
        policy not in (ApprovalPolicy.NEVER, ApprovalPolicy.ON_FAILURE) and escalates and not open_air
    )

    if policy is ApprovalPolicy.NEVER:
        return lambda _: Verdict.ALLOW
    dangerous = frozenset() if asked else dangerous_commands(line.suspects or line.commands)

    def judged(command: tuple[str, ...]) -> Verdict:
        if policy is ApprovalPolicy.UNTRUSTED and line.simple and is_known_safe(command, expands=line.expands):
            return Verdict.ALLOW if belief.knows(command) else Verdict.ASK
        is_dangerous = bool(dangerous) and (not line.simple or command in dangerous)
        return Verdict.ASK if asked or is_dangerous else Verdict.ALLOW

    return judged
