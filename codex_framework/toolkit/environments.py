"""The environments of a turn, for tools and context sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT, EnvironmentSelection
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.tool_specs import FunctionSpec
from codex_framework.toolkit.arguments import Argument

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

NO_ENVIRONMENT = (
    "No usable execution environment is available. Wait for an environment to become available before using this tool."
)
"""The answer of tools that need an environment, in a turn without one (Codex's words)."""

_SHOWN = {
    "type": "string",
    "description": "The id of the environment in which it works, as in <environment_context>. The primary one if it is left out.",
}

ENVIRONMENT_ID = Argument("string", hidden=True)
"""The argument ``environment_id`` of a tool. As in Codex, the model is told of it only if it has a choice."""


def environments_of(of: Settings | TurnFacts) -> tuple[EnvironmentSelection, ...]:
    """Return the selected environments, the primary one first. Without a selection this is this machine."""
    if of.environments is not None:
        return of.environments
    return (EnvironmentSelection(LOCAL_ENVIRONMENT, str(of.cwd)),)


def shell_in(environment_id: str, facts: TurnFacts) -> str:
    """Return the path of the user's shell in an environment of a turn. ``/bin/sh`` if it is not known there."""
    state = facts.environment_states.get(environment_id)
    return facts.shell if state is None else state.shell or "/bin/sh"


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


class _HasEnvironments(Protocol):
    @property
    def environments(self) -> Sequence[EnvironmentSelection]: ...


def environment_for(context: _HasEnvironments, environment_id: str | None) -> EnvironmentSelection:
    """Return the environment in which a call works.

    Args:
        context: The context of the call.
        environment_id: The argument of the call. By default, the primary environment.

    Raises:
        ToolError: The turn has no such environment. The text is Codex's.
    """
    environments = context.environments
    if environment_id is None:
        if not environments:
            raise ToolError(NO_ENVIRONMENT)
        return environments[0]
    for environment in environments:
        if environment.environment_id == environment_id:
            return environment
    raise ToolError(f"unknown turn environment id `{environment_id}`")
