"""Threads whose model starts agents: the root gets replies in order, and every agent those of a function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import pytest

from codex_framework import ModelInfo
from codex_framework.testing import Reply, ScriptedModel, call, say
from codex_framework.testing.kernels import KernelFactory

__all__ = ["Play", "spawn"]

FAST = "framework.plugins.sub_agents.shortest_wait_ms=50"


def spawn(message: str = "Do it.", call_id: str = "s", **more: Any) -> Reply:
    """Return a call that starts an agent."""
    return call("spawn_agent", message=message, call_id=call_id, **more)


class Play:
    """One root thread and its agents.

    Attributes:
        requests: The requests to the model, in order.
        kernel, thread: Those of the last run.
    """

    def __init__(self, kernels: KernelFactory) -> None:
        self._kernels = kernels
        self.requests: list[Any] = []
        self.kernel: Any = None
        self.thread: Any = None

    def outputs(self) -> dict[str, Any]:
        """The outputs of the root's calls by the id of the call, as JSON where they are."""
        found = {}
        for item in self.thread.history.items:
            if item.type == "function_call_output":
                try:
                    found[item.call_id] = json.loads(item.output)
                except ValueError:
                    found[item.call_id] = item.output
        return found

    def id_of(self, call_id: str = "s") -> str:
        """The id of the agent that a call has started."""
        return str(self.outputs()[call_id]["agent_id"])

    def of_agents(self) -> list[Any]:
        """The requests of agents."""
        return [request for request in self.requests if request.thread_id != self.thread.id]

    def run(
        self,
        replies: Iterable[Any],
        worker: Callable[[int, Any], Reply] = lambda number, request: say(f"answer {number}"),
        *config: str,
        story: Callable[[Play], Awaitable[Any]] | None = None,
        plugins: Iterable[Any] = (),
        models: Mapping[str, ModelInfo] | None = None,
        **settings: Any,
    ) -> Any:
        """Run a turn of the root, or a story. ``worker`` gets the number of the agent, from 0, and its request."""
        rest = iter(replies)
        numbers: dict[str, int] = {}

        def reply(request: Any) -> Reply:
            self.requests.append(request)
            if request.thread_id != self.thread.id:
                return worker(numbers.setdefault(request.thread_id, len(numbers)), request)
            found = next(rest)
            return found() if callable(found) else found

        async def main() -> Any:
            model = ScriptedModel([reply] * 500, models=models)
            made = self._kernels.around(model, config=[FAST, *config], plugins=list(plugins))
            async with made as kernel, asyncio.timeout(60):
                self.kernel, self.thread = kernel, await kernel.start_thread(**settings)
                return await (self.thread.run("Go!") if story is None else story(self))

        return asyncio.run(main())


@pytest.fixture
def play(make_kernel: KernelFactory) -> Play:
    return Play(make_kernel)
