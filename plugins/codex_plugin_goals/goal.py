"""A goal, its event, and its form for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg, Value

__all__ = ["MAX_OBJECTIVE", "STATUSES", "Goal", "ThreadGoalUpdatedEvent", "goal_from", "objective_problem"]

MAX_OBJECTIVE = 4_000
"""Maximum length of an objective, in characters (Codex's limit)."""

STATUSES = ("active", "paused", "blocked", "usageLimited", "budgetLimited", "complete")
"""Only an ``active`` goal is pursued, and only a ``complete`` one can be replaced by the model."""


class Goal(Value, kw_only=True):
    """A goal (wire: ``ThreadGoal``).

    Attributes:
        status: One of :data:`STATUSES`.
        token_budget: The tokens that may be used. By default, there is no limit.
        tokens_used: The tokens that turns have used while the goal was active, without cached input.
        created_at, updated_at: Unix seconds.
    """

    thread_id: str
    objective: str
    status: str = "active"
    token_budget: int | None = None
    tokens_used: int = 0
    time_used_seconds: int = 0
    created_at: int = 0
    updated_at: int = 0

    @property
    def remaining(self) -> int | None:
        """The tokens that are left, at least 0. None if there is no limit."""
        return None if self.token_budget is None else max(self.token_budget - self.tokens_used, 0)

    def for_model(self) -> Mapping[str, Any]:
        """Return the goal as the tools show it, with Codex's names."""
        budget = {} if self.token_budget is None else {"tokenBudget": self.token_budget}
        return {
            "threadId": self.thread_id,
            "objective": self.objective,
            "status": self.status,
            **budget,
            "tokensUsed": self.tokens_used,
            "timeUsedSeconds": self.time_used_seconds,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }


class ThreadGoalUpdatedEvent(EventMsg):
    """The goal of a thread has changed.

    Attributes:
        turn_id: The turn that changed it, if one did.
        goal: The goal. None if it was removed.
    """

    type: ClassVar[Literal["thread_goal_updated"]] = "thread_goal_updated"
    kept = True
    thread_id: str
    turn_id: str | None = None
    goal: Goal | None = None


def objective_problem(objective: str) -> str | None:
    """Return why a text cannot be an objective, in Codex's words, or None if it can."""
    if not objective.strip():
        return "goal objective must not be empty"
    if len(objective) > MAX_OBJECTIVE:
        return f"goal objective must be at most {MAX_OBJECTIVE} characters"
    return None


def goal_from(entry: Mapping[str, Any], thread_id: str) -> Goal | None:
    """Return the goal of a record's entry, or None if there is no goal, or the entry is damaged."""
    objective, status, budget = entry.get("objective"), entry.get("status"), entry.get("token_budget")
    if not isinstance(objective, str) or status not in STATUSES or not (budget is None or _is_count(budget)):
        return None
    counts = {name: entry.get(name) for name in ("tokens_used", "time_used_seconds", "created_at", "updated_at")}
    found = {name: value for name, value in counts.items() if isinstance(value, int) and _is_count(value)}
    return Goal(thread_id=thread_id, objective=objective, status=str(status), token_budget=budget, **found)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
