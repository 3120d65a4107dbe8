"""Goals: an objective that a thread pursues over several turns, with a budget and a status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Component, EventMsg, OpHandler, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_goals.goal import Goal, ThreadGoalUpdatedEvent
    from codex_plugin_goals.ops import ThreadGoalClear, ThreadGoalSet
else:
    __getattr__ = lazy_exports(
        __name__, {"goal": "Goal ThreadGoalUpdatedEvent", "ops": "ThreadGoalClear ThreadGoalSet"}
    )

__all__ = [
    "Goal",
    "ThreadGoalClear",
    "ThreadGoalSet",
    "ThreadGoalUpdatedEvent",
    "codex_components",
    "codex_events",
    "codex_ops",
]


@hookimpl
def codex_components() -> Iterable[Component]:
    """Offer the component that gives threads a goal."""
    from codex_plugin_goals.component import Goals

    return [Goals()]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``thread_goal_updated``."""
    from codex_plugin_goals.goal import ThreadGoalUpdatedEvent

    return [ThreadGoalUpdatedEvent]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handlers of the ops ``thread_goal_set`` and ``thread_goal_clear``."""
    from codex_plugin_goals.ops import ClearHandler, SetHandler

    return [SetHandler(), ClearHandler()]
