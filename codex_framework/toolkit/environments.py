"""The environments of a turn, for tools and context sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.tool_specs import FunctionSpec
from codex_framework.toolkit.arguments import Argument
from codex_framework.toolkit.selected_environments import NO_ENVIRONMENT, environment_for, environments_of, shell_in

if TYPE_CHECKING:
    from codex_framework.contract.roles.tools import ToolContext

__all__ = [
    "ENVIRONMENT_ID",
    "NO_ENVIRONMENT",
    "environment_for",
    "environments_of",
    "in_environment",
    "shell_in",
    "with_environments",
]

_SHOWN = {
    "type": "string",
    "description": "The id of the environment in which it works, as in <environment_context>. The primary one if it is left out.",
}

ENVIRONMENT_ID = Argument("string", hidden=True)
"""The argument ``environment_id`` of a tool. As in Codex, the model is told of it only if it has a choice."""


def with_environments(spec: FunctionSpec, facts: TurnFacts) -> FunctionSpec:
    """Return a tool's spec for a turn: with the argument ``environment_id`` if there are several environments."""
    if len(facts.environments or ()) < 2:
        return spec
    known = {"environment_id": _SHOWN, **spec.parameters["properties"]}
    properties = {name: known[name] for name in (*spec.parameters["properties"], "environment_id")}
    return spec.evolve(parameters={**spec.parameters, "properties": properties})


def in_environment(context: ToolContext, environment_id: str | None) -> ToolContext:
    """Return the context of a call in the environment that its arguments name, by default the primary one. Raises ToolError."""
    return context.at(environment_for(context, environment_id).environment_id)
