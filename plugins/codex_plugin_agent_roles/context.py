"""The context source ``agent_role``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codex_framework import ContextSource, Fragment, TurnFacts

__all__ = ["RoleInstructions"]


class RoleInstructions(ContextSource):
    """The developer instructions of the role that a thread runs.

    Args:
        instructions: By the name of the role.
    """

    name = "agent_role"
    reads = frozenset({"thread"})

    def __init__(self, instructions: Mapping[str, str]) -> None:
        self._instructions = instructions

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield the instructions, if the thread runs a role that has some."""
        text = self._instructions.get(facts.agent or "")
        if text:
            yield Fragment(role="developer", text=text, start=text, order=60)
