"""The component that tells users about roles that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import Component, ThreadContext

__all__ = ["RoleWarnings"]


class RoleWarnings(Component):
    """Warns of files that cannot be used, once in each thread that is no child."""

    name = "agent-roles"

    def __init__(self, problems: Sequence[str]) -> None:
        self._problems = problems

    def for_thread(self, thread: ThreadContext) -> None:
        """Warn."""
        for problem in self._problems if not thread.depth else ():
            thread.warn(problem)
