"""The typed output of an agent: its schema for the model, and the check of the model's answer."""

from __future__ import annotations

import json
from typing import Any

from codex_framework.contract.errors import RunError
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.roles.agents import Agent, RunResult
from codex_framework.contract.roles.outcomes import Outcome, Status

__all__ = ["Output", "run_result"]


def run_result(output: Output | None, outcome: Outcome, events: tuple[EventMsg, ...]) -> RunResult[Any]:
    """Return the result of a turn. Its value is the last message of the model, or the output's interpretation of it."""
    if output is None:
        return RunResult(outcome=outcome, events=events, value=outcome.last_agent_message)
    value, misfit = output.result(outcome)
    return RunResult(outcome=outcome, events=events, value=value, misfit=misfit)


class Output:
    """The expected output of an agent.

    Raises:
        TypeError: The output type cannot be expressed for a model. The text names it.
    """

    def __init__(self, agent: Agent[Any]) -> None:
        self.retries = agent.output_retries
        self.schema, self._read = agent.descriptions.output(
            agent.output_type, f"the output type of agent {agent.name!r}"
        )

    def read(self, message: str | None) -> Any:
        """Return the output that a message contains.

        Raises:
            RunError: It does not fit. The fact gives the reason, for the model and the user.
        """
        try:
            json.loads(message or "")
        except ValueError as error:
            raise RunError(f"the output is not JSON: {error}") from None
        try:
            return self._read(message or "")
        except ValueError as error:
            raise RunError(str(error)) from None

    def problem(self, message: str | None) -> str | None:
        """Return the message to the model about an invalid output, or None if it is valid."""
        try:
            self.read(message)
        except RunError as error:
            return f"The output does not match the required format: {error}. Return the whole output again, as JSON."
        return None

    def result(self, outcome: Outcome) -> tuple[Any, str | None]:
        """Return the output of a turn and its fault."""
        if outcome.status is not Status.COMPLETED:
            return None, None
        try:
            return self.read(outcome.last_agent_message), None
        except RunError as error:
            return None, str(error)
