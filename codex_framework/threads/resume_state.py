"""The state that a thread takes over from its record or its parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.contract.protocol.events import (
    ContextCompactedEvent,
    EventMsg,
    TokenCountEvent,
    TokenUsage,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    UnknownEvent,
)
from codex_framework.contract.protocol.items import ResponseItem, is_user_message
from codex_framework.contract.protocol.policies import CollaborationMode, CollaborationSettings
from codex_framework.contract.protocol.wire import read_event
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.loader.registry import Registry
from codex_framework.threads.agents import stricter_policies

__all__ = [
    "count_tokens",
    "inherited_items",
    "keep_approval_policy",
    "keep_mode",
    "keep_model",
    "known_events",
    "model_changes",
    "usage_so_far",
]


def known_events(events: Sequence[EventMsg], registry: Registry) -> tuple[EventMsg, ...]:
    """Return the stored events, with events of plugins as values of their classes."""
    kinds = registry.events
    return tuple(
        read_event(event.raw, kinds) if isinstance(event, UnknownEvent) and kinds else event for event in events
    )


def usage_so_far(past: Sequence[EventMsg]) -> TokenUsage:
    """Return the tokens that a stored thread has used."""
    for msg in reversed(past):
        if isinstance(msg, TokenCountEvent) and msg.info is not None:
            return msg.info.total_token_usage
    return TokenUsage()


def count_tokens(past: Sequence[EventMsg]) -> int:
    """Return the length of the history at the server's last count, in tokens. 0 means unknown.

    A count outside of a turn belongs to turns that were rolled back, so it does not apply to the history. Neither does a count from
    before a compaction.
    """
    outside = False
    count = 0
    for msg in past:
        match msg:
            case TurnStartedEvent():
                outside = False
            case TurnCompleteEvent() | TurnAbortedEvent():
                outside = True
            case TokenCountEvent(info=info) if info is not None:
                count = 0 if outside else info.last_token_usage.total_tokens
            case ContextCompactedEvent():
                count = 0
            case _:
                pass
    return count


def model_changes(stored: StoredThread, settings: Settings) -> tuple[str, ...]:
    """Return a warning if a stored thread continues with another model, or None."""
    before = (stored.last_turn_context or {}).get("model")
    if before is None or before == settings.model:
        return ()
    return (
        f"the thread was last used with model `{before}` and now continues with `{settings.model}`; answers may differ",
    )


def keep_approval_policy(stored: StoredThread, settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of a resumed thread with its last approval policy, unless that is looser than theirs; and warnings."""
    before = (stored.last_turn_context or {}).get("approval_policy")
    if not isinstance(before, str) or before == settings.approval_policy:
        return settings, ()
    kept = next((policy for policy in stricter_policies(settings.approval_policy) if policy == before), None)
    if kept is not None:
        return settings.evolve(approval_policy=kept), ()
    now = settings.approval_policy
    text = f"the thread was last used with the approval policy `{before}` and now continues with `{now}`"
    return settings, (f"{text}. To choose one, pass `approval_policy` to resume_thread.",)


def keep_model(stored: StoredThread, settings: Settings, agent: Agent[Any]) -> Settings:
    """Return the settings of a resumed child with the model and effort of its last turn, unless its agent names its own.

    Without this, a child would continue with those that its parent has now. They are kept only if its provider is still the same.
    """
    before = stored.last_turn_context or {}
    model, effort = before.get("model"), before.get("effort")
    provider = before.get("model_provider") or stored.meta.model_provider
    if not isinstance(model, str) or not model or provider != settings.provider.id:
        return settings
    if agent.model is None:
        settings = settings.evolve(model=model)
    if agent.reasoning_effort is None and settings.model == model:
        settings = settings.evolve(reasoning_effort=effort if isinstance(effort, str) and effort else None)
    return settings


def keep_mode(stored: StoredThread, settings: Settings) -> Settings:
    """Return the settings of a resumed thread with the collaboration mode of its last turn, unless they name one."""
    before = (stored.last_turn_context or {}).get("collaboration_mode")
    if settings.collaboration_mode is not None or not isinstance(before, Mapping):
        return settings
    own = before.get("settings")
    texts = {
        key: text
        for key, text in (own.items() if isinstance(own, Mapping) else ())
        if key in ("model", "reasoning_effort", "developer_instructions") and isinstance(text, str)
    }
    mode = CollaborationMode(before.get("mode", ""), CollaborationSettings(**texts))
    return settings.evolve(collaboration_mode=mode) if mode.is_known else settings


def inherited_items(items: Sequence[ResponseItem], turns: int | None) -> Sequence[ResponseItem]:
    """Return the part of a history that a child starts with: the last ``turns`` turns, by default the whole history.

    Calls without an output are left out: the call that starts the child is one of them.
    """
    answered = {getattr(item, "call_id", None) for item in items if item.type.endswith("_output")}
    items = [item for item in items if not item.type.endswith("_call") or getattr(item, "call_id", None) in answered]
    if turns is None:
        return items
    if turns < 1:
        return ()
    starts = [place for place, item in enumerate(items) if is_user_message(item)]
    return list(items[starts[-turns] :]) if len(starts) >= turns else list(items)
