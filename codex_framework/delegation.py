"""One prompt in a thread of its own: for reviewers, and whatever else needs a second opinion of a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from codex_framework.config.settings import Settings
from codex_framework.errors import ThreadError
from codex_framework.permissions import permissions_of
from codex_framework.protocol.policies import ApprovalPolicy, ReadOnly
from codex_framework.turn import Status

if TYPE_CHECKING:
    from codex_framework.registry import Registry
    from codex_framework.thread import Thread

__all__ = ["Delegation"]


class Delegation:
    """Plays :class:`codex_framework.roles.deciders.Delegate` for one turn.

    Args:
        start: Starts a thread with these settings and base instructions.
        settings: Those of the turn.
    """

    def __init__(self, start: Callable[[Settings, str], Awaitable[Thread]], settings: Settings) -> None:
        self._start = start
        self._settings = settings

    async def __call__(
        self,
        prompt: str,
        *,
        instructions: str,
        model: str | None = None,
        reasoning_effort: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Run one turn and return the model's last message.

        Raises:
            ThreadError: The turn failed, or said nothing.
        """
        settings = self._settings.evolve(
            model=model or self._settings.model,
            reasoning_effort=reasoning_effort or self._settings.reasoning_effort,
            permissions=permissions_of(ReadOnly()),
            approval_policy=ApprovalPolicy.NEVER,
            ephemeral=True,
        )
        thread = await self._start(settings, instructions)
        try:
            thread.resources = thread.resources.evolve(registry=_bare(thread.resources.registry))
            result = await thread.run(prompt, output_schema=output_schema)
        finally:
            await thread.shutdown()
        if result.status is not Status.COMPLETED or not result.final_message:
            raise ThreadError(result.error or "the model gave no answer", slug="turn-failed")
        return result.final_message


def _bare(registry: Registry) -> Registry:
    """What a turn needs in order to talk to a model.

    A delegate is asked about things that nobody vouches for. What a workspace says of itself must not reach it as context, and
    what it is told must not get it to use a tool.
    """
    return attrs.evolve(registry, tools={}, tools_by_call={}, context_sources=(), reviewers=())
