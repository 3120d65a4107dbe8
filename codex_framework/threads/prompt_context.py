"""Collects the context fragments that are new or changed since they last appeared in the history."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.items import InputText, Message
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.value import Value
from codex_framework.threads.history import History

__all__ = ["ContextUpdate", "context_update"]


class ContextUpdate(Value):
    """The context to record before the input of a turn.

    Attributes:
        messages: At most one developer message and one user message, in that order.
        warnings: Warnings for the user about sources that failed.
    """

    messages: tuple[Message, ...]
    warnings: tuple[str, ...]


def context_update(sources: Iterable[ContextSource], facts: TurnFacts, history: History | None) -> ContextUpdate:
    """Return new and changed context. If ``history`` is None, return all context."""
    fragments: list[Fragment] = []
    warnings: list[str] = []
    for source in sources:
        try:
            fragments.extend(source.fragments(facts))
        except CodexError as error:
            warnings.append(f"context source {source.name!r}: {error}. {error.hint}".strip())
        except Exception as error:  # a broken source must not stop the user from working; it causes a warning
            warnings.append(f"context source {source.name!r} failed: {type(error).__name__}: {error}")
    fresh = [
        fragment
        for fragment in sorted(fragments, key=lambda fragment: fragment.order)
        if facts.first or history is None or history.last_with(fragment.start) != fragment.text
    ]
    messages = []
    for role in ("developer", "user"):
        parts = tuple(InputText(fragment.text) for fragment in fresh if fragment.role == role)
        if parts:
            messages.append(Message(role=role, content=parts))
    return ContextUpdate(tuple(messages), tuple(warnings))
