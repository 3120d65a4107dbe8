"""Plan mode: the model explores and plans, changes nothing, and proposes a plan that clients show as a separate item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework import ContextSource, EventMsg, Interceptor, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_plan_mode.events import PlanDeltaEvent
else:
    __getattr__ = lazy_exports(__name__, {"events": "PlanDeltaEvent"})

__all__ = ["PlanDeltaEvent", "codex_context_sources", "codex_events", "codex_interceptors"]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``plan_delta``."""
    from codex_plugin_plan_mode.events import PlanDeltaEvent

    return [PlanDeltaEvent]


@hookimpl
def codex_context_sources() -> Iterable[ContextSource]:
    """Offer ``collaboration_mode``, the instructions for the mode of the turn."""
    from codex_plugin_plan_mode.context import ModeInstructions

    return [ModeInstructions()]


@hookimpl
def codex_interceptors() -> Iterable[Interceptor]:
    """Offer ``plan-mode``, which shows plans and refuses what does not belong to planning, and ``plan-effort``."""
    from codex_plugin_plan_mode.interceptor import PlanEffort, PlanMode

    return [PlanMode(), PlanEffort()]
