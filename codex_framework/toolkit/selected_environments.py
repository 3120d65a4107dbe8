"""The environments that a turn has selected, as the kernel asks for them. Tools find these functions in ``toolkit.environments``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT, EnvironmentSelection
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.settings import Settings

__all__ = ["NO_ENVIRONMENT", "environment_for", "environments_of", "shell_in"]

NO_ENVIRONMENT = (
    "No usable execution environment is available. Wait for an environment to become available before using this tool."
)
"""The answer of tools that need an environment, in a turn without one (Codex's words)."""


def environments_of(of: Settings | TurnFacts) -> tuple[EnvironmentSelection, ...]:
    """Return the selected environments, the primary one first. Without a selection this is this machine."""
    if of.environments is not None:
        return of.environments
    return (EnvironmentSelection(LOCAL_ENVIRONMENT, str(of.cwd)),)


def shell_in(environment_id: str, facts: TurnFacts) -> str:
    """Return the path of the user's shell in an environment of a turn. ``/bin/sh`` if it is not known there."""
    state = facts.environment_states.get(environment_id)
    return facts.shell if state is None else state.shell or "/bin/sh"


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
