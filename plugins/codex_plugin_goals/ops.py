"""The ops with which users set and remove goals."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from codex_framework import Op, OpHandler, ServiceError, ThreadContext, ThreadError
from codex_plugin_goals.goal import STATUSES, objective_problem

if TYPE_CHECKING:
    from codex_plugin_goals.pursuit import Pursuit

__all__ = ["ClearHandler", "SetHandler", "ThreadGoalClear", "ThreadGoalSet"]


class ThreadGoalSet(Op):
    """Set the goal of the thread, or change it. An idle thread starts to pursue an active goal immediately.

    Attributes:
        objective: A new goal, which replaces the current one. None keeps the current goal.
        status: The status of the goal. By default ``active`` for a new goal, and unchanged otherwise.
        token_budget: The budget in tokens. By default, there is no limit for a new goal, and no change otherwise.
    """

    type: ClassVar[Literal["thread_goal_set"]] = "thread_goal_set"
    objective: str | None = None
    status: str | None = None
    token_budget: int | None = None


class ThreadGoalClear(Op):
    """Remove the goal of the thread."""

    type: ClassVar[Literal["thread_goal_clear"]] = "thread_goal_clear"


class SetHandler(OpHandler[ThreadGoalSet]):
    """Sets or changes the goal."""

    op = ThreadGoalSet

    async def handle(self, op: ThreadGoalSet, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Set the goal.

        Raises:
            ThreadError: A value is invalid, or there is no goal to change.
        """
        problem = None if op.objective is None else objective_problem(op.objective)
        if problem is None and op.status is not None and op.status not in STATUSES:
            problem = f"there is no goal status {op.status[:80]!r}"
        if problem is not None:
            raise ThreadError(problem, slug="bad-request", hint=f"The statuses are: {', '.join(STATUSES)}.")
        pursuit = await _pursuit(thread)
        if problem := pursuit.budget_problem(op.token_budget):
            raise ThreadError(
                problem, slug="bad-request", hint="Give a positive number within the limit, or leave it out."
            )
        if op.objective is not None:
            pursuit.create(op.objective, op.token_budget, status=op.status or "active")
        elif pursuit.goal is None:
            raise ThreadError(
                "cannot update goal because this thread has no goal", slug="bad-request", hint="Set an `objective`."
            )
        else:
            pursuit.change(status=op.status, token_budget=op.token_budget)
        if thread.turn is None:
            thread.background(pursuit.idle(), name="goal")


class ClearHandler(OpHandler[ThreadGoalClear]):
    """Removes the goal."""

    op = ThreadGoalClear

    async def handle(self, op: ThreadGoalClear, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Remove the goal, if there is one."""
        (await _pursuit(thread)).clear()


async def _pursuit(thread: ThreadContext) -> Pursuit:
    from codex_plugin_goals.pursuit import Pursuit

    try:
        return await thread.part(Pursuit)
    except ServiceError:
        raise ThreadError(
            "this thread has no goals", slug="bad-request", hint="Switch `features.goals` on, and use a root thread."
        ) from None
