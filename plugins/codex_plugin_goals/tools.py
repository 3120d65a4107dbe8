"""The tools ``get_goal``, ``create_goal`` and ``update_goal``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from codex_framework import (
    Argument,
    FunctionSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    arguments_schema,
    parse_arguments,
)
from codex_plugin_goals.goal import Goal, objective_problem

if TYPE_CHECKING:
    from codex_plugin_goals.pursuit import Pursuit

__all__ = ["TOOLS"]

_REPORT = (
    "The goal is complete. Tell the user what it has used: the tokens of goal.tokensUsed, with goal.tokenBudget if there is one, and"
    " the time of goal.timeUsedSeconds if it is more than 0."
)


def _goal_output(goal: Goal | None, report: str | None = None) -> ToolOutput:
    shown = {
        "goal": None if goal is None else goal.for_model(),
        "remainingTokens": None if goal is None else goal.remaining,
        "completionBudgetReport": report,
    }
    return ToolOutput(json.dumps(shown, ensure_ascii=False, separators=(",", ":")), truncate=False, result=shown)


class _GoalTool(Tool):
    tells_clients = True
    arguments: ClassVar[Mapping[str, Argument]] = {}

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call."""
        from codex_plugin_goals.pursuit import Pursuit  # not before the first call

        given = parse_arguments(call.arguments, self.arguments)
        return self.act(given, await context.part(Pursuit))

    def act(self, given: Mapping[str, Any], pursuit: Pursuit) -> ToolOutput:
        """Run one call with checked arguments."""
        raise NotImplementedError


class GetGoal(_GoalTool):
    """Shows the goal."""

    parallel_safe = True
    spec = FunctionSpec(
        "get_goal",
        "Returns the goal of this thread: its objective, its status, and what it has used and may still use.",
        arguments_schema({}),
    )

    def act(self, given: Mapping[str, Any], pursuit: Pursuit) -> ToolOutput:  # noqa: ARG002  # the base's
        """Return the goal."""
        return _goal_output(pursuit.goal)


class CreateGoal(_GoalTool):
    """Sets a goal."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "objective": Argument("string", "What is to be reached.", required=True),
        "token_budget": Argument(
            "i64",
            "The tokens that it may use. Leave it out unless the user names a number.",
            schema={"type": "integer"},
        ),
    }
    spec = FunctionSpec(
        "create_goal",
        "Sets the goal of this thread, which is then pursued over several turns until it is complete. Do this only if the user or the"
        " instructions ask for a goal; an ordinary task is none. It fails if there is a goal that is not complete.",
        arguments_schema(arguments),
    )

    def act(self, given: Mapping[str, Any], pursuit: Pursuit) -> ToolOutput:
        """Set the goal."""
        problem = objective_problem(given["objective"])
        if problem is None:
            problem = pursuit.budget_problem(given.get("token_budget"))
        current = pursuit.goal
        if problem is None and current is not None and current.status != "complete":
            problem = (
                "cannot create a new goal because this thread has an unfinished goal; complete the existing goal first"
            )
        if problem is not None:
            raise ToolError(problem)
        return _goal_output(pursuit.create(given["objective"], given.get("token_budget")))


class UpdateGoal(_GoalTool):
    """Changes the status of the goal."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "status": Argument("string", "The new status.", required=True, choices=("complete", "blocked", "paused"))
    }
    spec = FunctionSpec(
        "update_goal",
        "Changes the status of the goal. `complete`: all of the objective is reached and checked; a budget that runs out is no reason."
        " `blocked`: the same obstacle has stopped you in three turns in a row, and only the user or somebody else can remove it."
        " `paused`: the user asks for a pause. Only the user can make a goal active again.",
        arguments_schema(arguments),
    )

    def act(self, given: Mapping[str, Any], pursuit: Pursuit) -> ToolOutput:
        """Change the status."""
        if pursuit.goal is None:
            raise ToolError("cannot update goal because this thread has no goal")
        status = given["status"]
        return _goal_output(pursuit.change(status=status), _REPORT if status == "complete" else None)


TOOLS: Sequence[Tool] = (GetGoal(), CreateGoal(), UpdateGoal())
