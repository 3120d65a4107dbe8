"""The events by which clients that predate turn items learn about agents.

They contain the same data as the items (wire: ``Collab*Event``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg
from codex_framework.contract.value import field

__all__ = [
    "EVENTS",
    "CollabAgentInteractionBeginEvent",
    "CollabAgentInteractionEndEvent",
    "CollabAgentSpawnBeginEvent",
    "CollabAgentSpawnEndEvent",
    "CollabCloseBeginEvent",
    "CollabCloseEndEvent",
    "CollabResumeBeginEvent",
    "CollabResumeEndEvent",
    "CollabWaitingBeginEvent",
    "CollabWaitingEndEvent",
    "SubAgentActivityEvent",
]


class CollabAgentSpawnBeginEvent(EventMsg):
    """The model starts an agent (``started_at_ms``: unix milliseconds)."""

    type: ClassVar[Literal["collab_agent_spawn_begin"]] = "collab_agent_spawn_begin"
    call_id: str
    started_at_ms: int
    sender_thread_id: str
    prompt: str
    model: str
    reasoning_effort: str | None = None


class CollabAgentSpawnEndEvent(EventMsg):
    """An agent was started, or not: then there is no ``new_thread_id``, and ``status`` is ``not_found``."""

    type: ClassVar[Literal["collab_agent_spawn_end"]] = "collab_agent_spawn_end"
    call_id: str
    completed_at_ms: int
    sender_thread_id: str
    prompt: str
    model: str
    status: Any
    new_thread_id: str | None = None
    reasoning_effort: str | None = None
    new_agent_nickname: str | None = None
    new_agent_role: str | None = None


class CollabAgentInteractionBeginEvent(EventMsg):
    """The model sends an agent input."""

    type: ClassVar[Literal["collab_agent_interaction_begin"]] = "collab_agent_interaction_begin"
    call_id: str
    started_at_ms: int
    sender_thread_id: str
    receiver_thread_id: str
    prompt: str


class CollabAgentInteractionEndEvent(EventMsg):
    """The agent has received the input, or the call failed. ``status`` is the agent's status."""

    type: ClassVar[Literal["collab_agent_interaction_end"]] = "collab_agent_interaction_end"
    call_id: str
    completed_at_ms: int
    sender_thread_id: str
    receiver_thread_id: str
    prompt: str
    status: Any
    receiver_agent_nickname: str | None = None
    receiver_agent_role: str | None = None


class CollabWaitingBeginEvent(EventMsg):
    """The model waits for agents."""

    type: ClassVar[Literal["collab_waiting_begin"]] = "collab_waiting_begin"
    call_id: str
    started_at_ms: int
    sender_thread_id: str
    receiver_thread_ids: Sequence[str]
    receiver_agents: Sequence[Mapping[str, Any]] = ()


class CollabWaitingEndEvent(EventMsg):
    """The wait is over. ``statuses`` contains the finished agents by thread id, ``agent_statuses`` also their nicknames."""

    type: ClassVar[Literal["collab_waiting_end"]] = "collab_waiting_end"
    call_id: str
    completed_at_ms: int
    sender_thread_id: str
    statuses: Mapping[str, Any] = field(factory=dict)
    agent_statuses: Sequence[Mapping[str, Any]] = ()


class CollabCloseBeginEvent(EventMsg):
    """The model closes an agent."""

    type: ClassVar[Literal["collab_close_begin"]] = "collab_close_begin"
    call_id: str
    started_at_ms: int
    sender_thread_id: str
    receiver_thread_id: str


class CollabCloseEndEvent(EventMsg):
    """An agent was closed, or closing failed. ``status`` is its previous status."""

    type: ClassVar[Literal["collab_close_end"]] = "collab_close_end"
    call_id: str
    completed_at_ms: int
    sender_thread_id: str
    receiver_thread_id: str
    status: Any
    receiver_agent_nickname: str | None = None
    receiver_agent_role: str | None = None


class CollabResumeBeginEvent(EventMsg):
    """The model opens an agent again."""

    type: ClassVar[Literal["collab_resume_begin"]] = "collab_resume_begin"
    call_id: str
    started_at_ms: int
    sender_thread_id: str
    receiver_thread_id: str
    receiver_agent_nickname: str | None = None
    receiver_agent_role: str | None = None


class CollabResumeEndEvent(EventMsg):
    """An agent was opened again, or not."""

    type: ClassVar[Literal["collab_resume_end"]] = "collab_resume_end"
    call_id: str
    completed_at_ms: int
    sender_thread_id: str
    receiver_thread_id: str
    status: Any
    receiver_agent_nickname: str | None = None
    receiver_agent_role: str | None = None


class SubAgentActivityEvent(EventMsg):
    """An agent of a team was ``started``, ``interacted`` with or ``interrupted``, or has ``completed`` a turn."""

    type: ClassVar[Literal["sub_agent_activity"]] = "sub_agent_activity"
    event_id: str
    occurred_at_ms: int
    agent_thread_id: str
    agent_path: str
    kind: str
    model: str | None = None
    reasoning_effort: str | None = None


EVENTS: Sequence[type[EventMsg]] = (
    CollabAgentSpawnBeginEvent,
    CollabAgentSpawnEndEvent,
    CollabAgentInteractionBeginEvent,
    CollabAgentInteractionEndEvent,
    CollabWaitingBeginEvent,
    CollabWaitingEndEvent,
    CollabCloseBeginEvent,
    CollabCloseEndEvent,
    CollabResumeBeginEvent,
    CollabResumeEndEvent,
    SubAgentActivityEvent,
)
