"""Stored threads: checked calls of the thread store, and the state that a thread takes over from its record or its parent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from codex_framework.contract.errors import CodexError, ThreadError
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
from codex_framework.contract.roles.stores import StoredThread, ThreadMeta, ThreadRecorder, ThreadStore
from codex_framework.contract.value import Value
from codex_framework.loader.registry import Registry
from codex_framework.threads.agents import stricter_policies
from codex_framework.threads.faults import Label, WrongValue, check_type, fact_of, kind_of

__all__ = [
    "Store",
    "count_tokens",
    "create_record",
    "find_newest",
    "fork_thread",
    "inherited_items",
    "keep_approval_policy",
    "keep_mode",
    "keep_model",
    "known_events",
    "load_thread",
    "model_changes",
    "reopen_record",
    "usage_so_far",
]

T = TypeVar("T")

_RECORDER = ("append", "flush", "close")


class Store(Value):
    """A thread store and its name in messages."""

    store: ThreadStore
    label: Label


def create_record(store: Store, meta: ThreadMeta, home: str) -> ThreadRecorder:
    """Return the recorder of a new thread. Raises ThreadError."""
    create = store.store.create
    return _ask(store, "create", lambda: _check_recorder(create(meta, home), create), create)


def reopen_record(store: Store, stored: StoredThread, home: str) -> ThreadRecorder:
    """Return the recorder of a stored thread. Raises ThreadError."""
    reopen = store.store.reopen
    return _ask(store, "reopen", lambda: _check_recorder(reopen(stored, home), reopen), reopen)


def load_thread(store: Store, thread_id: str, home: str) -> StoredThread:
    """Read a thread. Raises ThreadError."""
    load = store.store.load
    return _ask(store, "load", lambda: check_type(load(thread_id, home), StoredThread, "it", load), load)


def fork_thread(store: Store, thread_id: str, home: str, new_id: str, at: int | str | None) -> None:
    """Store a thread that begins as another one. Raises ThreadError."""
    fork = store.store.fork
    _ask(store, "fork", lambda: fork(thread_id, home, new_id=new_id, at=at), fork)


def find_newest(store: Store, home: str, cwd: str | None) -> str | None:
    """Return the id of the newest thread. Raises ThreadError."""
    latest = store.store.latest

    def ask() -> str | None:
        found = latest(home, cwd=cwd)
        return None if found is None else check_type(found, str, "it", latest)

    return _ask(store, "latest", ask, latest)


def _ask(store: Store, method: str, ask: Callable[[], T], source: object) -> T:
    try:
        return ask()
    except CodexError:
        raise
    except Exception as error:  # a plugin may raise anything
        fact = f"{store.label}: {method}() failed: {fact_of(error, source)}"
        raise ThreadError(fact, slug="plugin", hint=store.label.advice(error)) from error


def _check_recorder(given: Any, source: object) -> ThreadRecorder:
    missing = [name for name in _RECORDER if not callable(getattr(given, name, None))]
    if not hasattr(given, "path"):
        missing.append("path")
    if missing:
        hint = "Return an object with append(entries), flush(), close() and path."
        raise WrongValue(f"it returned {kind_of(given)}, which has no {missing[0]}", source, hint=hint)
    recorder: ThreadRecorder = given
    return recorder


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

    A count outside of a turn belongs to turns that were rolled back, so it does not apply to the history. Neither does a count
    from before a compaction.
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

    Without this, a child would continue with its parent's current model and effort. They are kept only if its provider is still
    the same.
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
