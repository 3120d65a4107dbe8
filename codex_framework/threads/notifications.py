"""The notifications about the ends of turns."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework.contract.roles.observers import Notification
from codex_framework.contract.roles.outcomes import Outcome, Status
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["end_notification"]

_COMPLETE = "agent-turn-complete"
_OF_ENDS = {Status.COMPLETED: _COMPLETE, Status.FAILED: "turn-failed", Status.LIMITED: "budget-reached"}
"""The notification for each end of a turn. The user knows of an interrupt."""


def end_notification(
    scope: TurnScope, outcome: Outcome, asked: Sequence[str] | None, duration_s: float
) -> Notification | None:
    """Return the notification about the end of a turn. None means that nobody waits for it.

    Args:
        asked: The user's input. None for a task that is not the agent's own loop.
        duration_s: How long the turn has taken, in seconds.
    """
    conversation = scope.conversation
    kind = _OF_ENDS.get(outcome.status)
    if kind is None or conversation.parent is not None:
        return None  # the user waits for top-level threads
    if kind == _COMPLETE and outcome.last_agent_message is None and asked is None:
        return None  # a task without the agent
    return Notification(
        type=kind,
        thread_id=conversation.id,
        turn_id=scope.turn_id,
        cwd=str(scope.settings.cwd),
        input_messages=tuple(asked or ()),
        last_assistant_message=outcome.last_agent_message,
        text=outcome.error or "",
        client=conversation.meta.originator,
        duration_s=max(duration_s, 0.0),
    )
