"""Which context goes into a prompt: the fragments of all sources, where they differ from what history says already."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.errors import CodexError
from codex_framework.history import History
from codex_framework.protocol.items import InputText, Message
from codex_framework.roles.context import ContextFacts, ContextSource, Fragment
from codex_framework.value import Value

__all__ = ["ContextUpdate", "context_update"]


class ContextUpdate(Value):
    """What to record before the input of a turn.

    Attributes:
        messages: At most one developer message and one user message, in that order.
        warnings: For the person: sources that could not give what they should.
    """

    messages: tuple[Message, ...]
    warnings: tuple[str, ...]


def context_update(sources: Iterable[ContextSource], facts: ContextFacts, history: History) -> ContextUpdate:
    """The context that is new or has changed."""
    fragments: list[Fragment] = []
    warnings: list[str] = []
    for source in sources:
        try:
            fragments.extend(source.fragments(facts))
        except CodexError as error:
            warnings.append(f"context source {source.name!r}: {error}. {error.hint}".strip())
        except Exception as error:  # a broken source must not keep the person from working; they are told
            warnings.append(f"context source {source.name!r} failed: {type(error).__name__}: {error}")
    fresh = [
        fragment
        for fragment in sorted(fragments, key=lambda fragment: fragment.order)
        if facts.first or history.last_with(fragment.start) != fragment.text
    ]
    messages = []
    for role in ("developer", "user"):
        parts = tuple(InputText(fragment.text) for fragment in fresh if fragment.role == role)
        if parts:
            messages.append(Message(role=role, content=parts))
    return ContextUpdate(tuple(messages), tuple(warnings))
