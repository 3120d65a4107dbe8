"""The event of plan mode."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg

__all__ = ["PlanDeltaEvent"]


class PlanDeltaEvent(EventMsg):
    """A piece of a proposed plan. The item ``Plan`` contains the whole plan."""

    type: ClassVar[Literal["plan_delta"]] = "plan_delta"
    is_delta: ClassVar[bool] = True
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
