"""The task that runs a user's command and records its result."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from codex_framework import CommandRequest, Task, TaskContext, ToolError, TurnFacts
from codex_framework.toolkit.environments import environments_of, shell_in
from codex_plugin_user_shell.report import ABORTED, not_started, record_of

__all__ = ["TIMEOUT_MS", "UserShell"]

TIMEOUT_MS = 3_600_000
"""Time limit of a command in milliseconds: an hour (Codex's limit)."""

_SOURCE = "user_shell"


class UserShell(Task):
    """Runs one command. Beside a turn, the turn's next request to the model contains its result.

    Args:
        timeout_ms: Time limit in milliseconds, after which the command is killed.
    """

    kind = "user_shell"
    concurrent: ClassVar[bool] = True

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms

    async def run(self, turn: TaskContext, input: str) -> None:  # noqa: A002  # the word of the contract
        """Run the command ``input`` and record it with its result."""
        from codex_lib_shell_script.actions import command_actions

        argv = (_shell(turn.facts), "-lc", input)
        request = CommandRequest(
            argv=argv,
            timeout_ms=self._timeout_ms,
            source=_SOURCE,
            script=input,
            actions=command_actions(argv, input),
        )
        try:
            result = await turn.run_command(request, as_user=True)
        except asyncio.CancelledError:
            turn.record([record_of(input, ABORTED, turn.facts.model)])
            raise
        except ToolError as error:  # its end has been shown to clients
            result = not_started(error)
        turn.record([record_of(input, result, turn.facts.model, self._timeout_ms)])


def _shell(facts: TurnFacts) -> str:
    """Return the user's shell in the primary environment, which is where the command runs."""
    environments = environments_of(facts)
    return shell_in(environments[0].environment_id, facts) if environments else facts.shell
