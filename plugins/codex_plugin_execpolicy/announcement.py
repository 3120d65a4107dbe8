"""The announcement of allowed commands to the model, and of invalid rules to the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from codex_framework import ApprovalPolicy, ContextSource, Fragment, TurnFacts, Verdict
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.policies import GranularApproval
from codex_plugin_execpolicy.layers import RuleLayers

if TYPE_CHECKING:
    from codex_plugin_execpolicy.rules import RuleSet

__all__ = ["RulesAnnouncement"]

_START = "<allowed_commands>"
_END = "</allowed_commands>"
_MOST_PREFIXES = 100
_MOST_BYTES = 5000
_HINT = "Fix it (`codex-framework execpolicy test FILE` checks it) or remove it."
_CUT = "...\n[Some commands were truncated]"


class RulesAnnouncement(ContextSource):
    """A fragment with the prefixes that rules allow, and a warning for each invalid file."""

    name = "execpolicy"
    reads = frozenset({"settings", "files"})

    def __init__(self, layers: RuleLayers | None = None) -> None:
        self._layers = layers or RuleLayers()
        self._told: dict[str, tuple[str, ...]] = {}
        self._last: tuple[RuleSet, str] | None = None

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield at most one fragment.

        Raises:
            CodexError: Some files are invalid. Raised after the fragment, once per thread until there is a new problem.
        """
        loaded = self._layers.at(facts.cwd, facts.codex_home, facts.config)
        if loaded.rules and _may_ask(facts.approval_policy) and (allowed := self._allowed(loaded.rules)):
            text = f"{_START}\nCommands that begin with these words are allowed, and run outside of the sandbox:\n{allowed}\n{_END}"
            yield Fragment(role="developer", text=text, start=_START, end=_END, order=1)
        if loaded.problems != self._told.get(facts.thread_id, ()):
            self._told[facts.thread_id] = loaded.problems
            if loaded.problems:
                raise CodexError(". ".join(loaded.problems), slug="exec-rules", hint=_HINT)

    def files(self, facts: TurnFacts) -> Iterator[str]:
        """Yield the places of rules, and the files there."""
        return self._layers.files(facts.cwd, facts.codex_home, facts.config)

    def _allowed(self, rules: RuleSet) -> str:
        if self._last is None or self._last[0] is not rules:
            self._last = rules, _allowed(rules)
        return self._last[1]


def _may_ask(policy: ApprovalPolicy | GranularApproval) -> bool:
    if isinstance(policy, GranularApproval):
        return policy.sandbox_approval or policy.rules
    return policy is not ApprovalPolicy.NEVER


def _allowed(rules: RuleSet) -> str:
    import json

    prefixes = sorted(
        {
            json.dumps(
                [rule.program, *(word[0] if len(word) == 1 else list(word) for word in rule.rest)], ensure_ascii=False
            )
            for rule in rules.prefix_rules
            if rule.decision is Verdict.ALLOW
        }
    )
    lines: list[str] = []
    left = _MOST_BYTES
    for prefix in prefixes:
        line = f"- {prefix}"
        left -= len(line.encode(errors="replace")) + 1
        if left < 0 or len(lines) == _MOST_PREFIXES:
            return "\n".join([*lines, _CUT])
        lines.append(line)
    return "\n".join(lines)
