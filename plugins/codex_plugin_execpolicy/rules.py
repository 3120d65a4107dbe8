"""The rules of ``.rules`` files, and their matches for a command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codex_framework import Verdict
from codex_framework.contract.value import Value

__all__ = ["DECISIONS", "NetworkRule", "PrefixRule", "RuleMatch", "RuleSet", "word_for"]

DECISIONS: Mapping[str, Verdict] = {"allow": Verdict.ALLOW, "prompt": Verdict.ASK, "forbidden": Verdict.FORBID}
"""The decisions by their words in the files."""

_WORDS = {verdict: word for word, verdict in DECISIONS.items()}


def word_for(decision: Verdict) -> str:
    """Return the word for a decision in the files."""
    return _WORDS[decision]


class PrefixRule(Value):
    """A decision about all commands that start with certain words.

    Attributes:
        program: The first word.
        rest: The words after it, each with its alternatives.
    """

    program: str
    rest: tuple[tuple[str, ...], ...]
    decision: Verdict = Verdict.ALLOW
    justification: str | None = None

    def prefix_of(self, command: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the matched words after the program, or None if the rule does not match the command."""
        words = command[1 : 1 + len(self.rest)]
        if len(words) == len(self.rest) and all(map(_is_one_of, words, self.rest)):
            return words
        return None


def _is_one_of(word: str, alternatives: tuple[str, ...]) -> bool:
    return word in alternatives


class NetworkRule(Value):
    """A decision about connections to a host.

    Attributes:
        host: The host, in the form of :func:`codex_plugin_execpolicy.hosts.canonical_host`.
        protocol: ``http``, ``https``, ``socks5_tcp`` or ``socks5_udp``.
    """

    host: str
    protocol: str
    decision: Verdict
    justification: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the output of ``execpolicy network``."""
        match = {"host": self.host, "protocol": self.protocol, "decision": word_for(self.decision)}
        if self.justification is not None:
            match["justification"] = self.justification
        return {"networkRuleMatch": match}


class RuleMatch(Value, kw_only=True):
    """The decision of a rule, or of the heuristic if there is no rule, about one command.

    Attributes:
        prefix: The words that the rule matched. None if there is no rule.
        resolved_program: The path in the command, if the rule names its program without a path.
    """

    command: tuple[str, ...]
    decision: Verdict
    prefix: tuple[str, ...] | None = None
    justification: str | None = None
    resolved_program: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the output of ``execpolicy check``."""
        decision = word_for(self.decision)
        if self.prefix is None:
            return {"heuristicsRuleMatch": {"command": list(self.command), "decision": decision}}
        match: dict[str, Any] = {"matchedPrefix": list(self.prefix), "decision": decision}
        if self.resolved_program is not None:
            match["resolvedProgram"] = self.resolved_program
        if self.justification is not None:
            match["justification"] = self.justification
        return {"prefixRuleMatch": match}


class RuleSet:
    """The rules of any number of files, by program.

    Attributes:
        strictest: The most severe decision of the rules for commands.
    """

    def __init__(self) -> None:
        self.network: list[NetworkRule] = []
        self.strictest = Verdict.ALLOW
        self._by_program: dict[str, list[PrefixRule]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        """Return whether there is any rule for commands."""
        return bool(self._by_program)

    @property
    def prefix_rules(self) -> Iterable[PrefixRule]:
        """All rules for commands."""
        return (rule for rules in self._by_program.values() for rule in rules)

    def add(self, rule: PrefixRule) -> None:
        """Add a rule for commands."""
        self._by_program.setdefault(rule.program, []).append(rule)
        self.strictest = max(self.strictest, rule.decision)

    def locate(self, program: str, paths: tuple[str, ...]) -> None:
        """Set the paths of a program to which the rules for its bare name apply."""
        self._paths[program] = paths

    def update(self, other: RuleSet) -> None:
        """Add another set. Its paths of programs replace earlier ones."""
        for rule in other.prefix_rules:
            self.add(rule)
        self.network.extend(other.network)
        self._paths.update(other._paths)

    def severe(self) -> RuleSet:
        """Return only the rules that ask or forbid."""
        some = self.restricted(rule for rule in self.prefix_rules if rule.decision is not Verdict.ALLOW)
        some.network = [rule for rule in self.network if rule.decision is not Verdict.ALLOW]
        return some

    def network_matches(self, host: str, protocol: str) -> tuple[NetworkRule, ...]:
        """Return the rules about a host for one protocol. Hosts are compared as a whole."""
        if not self.network:
            return ()
        from codex_plugin_execpolicy.hosts import canonical_host

        name = canonical_host(host)
        return tuple(rule for rule in self.network if rule.host == name and rule.protocol == protocol)

    def network_decision(self, host: str, protocol: str) -> Verdict | None:
        """Return the most severe decision about a host for one protocol, or None if no rule applies."""
        return max((rule.decision for rule in self.network_matches(host, protocol)), default=None)

    def restricted(self, rules: Iterable[PrefixRule]) -> RuleSet:
        """Return a set of only some rules, with this set's paths of programs."""
        some = RuleSet()
        some._paths = self._paths
        for rule in rules:
            some.add(rule)
        return some

    def matches(
        self, command: tuple[str, ...], *, resolve: bool = True, anywhere: bool = False
    ) -> tuple[RuleMatch, ...]:
        """Return the matches of a command.

        Args:
            resolve: Whether a program given by a path is also looked up by its name, if no rule has the path. Unless a
                ``host_executable`` lists its paths, an *allow* then applies only to system folders, and never to a path like
                ``./x``.
            anywhere: Whether an *allow* applies to all folders. This is for the examples in a file, which are not run.
        """
        from codex_framework.toolkit.programs import program_name

        if not command:
            return ()
        found = self._among(self._by_program.get(command[0], ()), command)
        if found or not resolve or "/" not in command[0]:
            return found
        name = command[0].rsplit("/", 1)[-1]
        paths = self._paths.get(name)
        absolute = command[0].startswith("/")
        if paths is not None and absolute and command[0] not in paths:
            return ()
        found = self._among(self._by_program.get(name, ()), command, resolved=True)
        known = absolute and (paths is not None or program_name(command[0]) is not None)
        if not known and not anywhere:
            return tuple(match for match in found if match.decision is not Verdict.ALLOW)
        return found

    def _among(
        self, rules: Iterable[PrefixRule], command: tuple[str, ...], *, resolved: bool = False
    ) -> tuple[RuleMatch, ...]:
        return tuple(
            RuleMatch(
                command=command,
                decision=rule.decision,
                prefix=(rule.program, *words),
                justification=rule.justification,
                resolved_program=command[0] if resolved else None,
            )
            for rule in rules
            if (words := rule.prefix_of(command)) is not None
        )
