"""Collects the context fragments that are new or changed since they last appeared in the history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.items import InputText, Message
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor, Source
from codex_framework.contract.value import Value, field
from codex_framework.threads.faults import Label, WrongValue, checked, kind_of
from codex_framework.threads.history import History
from codex_framework.threads.provenance import mark_of

__all__ = ["ContextUpdate", "context_update", "sources_of", "unrecordable"]

_NOBODY: Mapping[tuple[str, str], str] = MappingProxyType({})
_ROLES = ("developer", "user")
_TEXTS = ("role", "text", "start", "end", "replacement", "revocation")


class ContextUpdate(Value):
    """The context to record before the input of a turn.

    Attributes:
        messages: At most one developer message and one user message, in that order.
        warnings: Warnings for the user about sources that failed.
        actors: For each part of each message its source, and how long this took, in seconds.
        recorded: What the sources add to the record of the turn's settings.
    """

    messages: tuple[Message, ...]
    warnings: tuple[str, ...]
    actors: tuple[tuple[tuple[Actor, float], ...], ...] = ()
    recorded: Mapping[str, Any] = field(factory=dict)


def context_update(
    sources: Iterable[ContextSource],
    facts: TurnFacts,
    history: History | None,
    owners: Mapping[tuple[str, str], str] = _NOBODY,
) -> ContextUpdate:
    """Return new and changed context. If ``history`` is None, return all context.

    Args:
        owners: The plugin of each offer, by role and name.
    """
    fragments: list[tuple[Fragment, ContextSource, float]] = []
    warnings: list[str] = []
    for source in sources:
        began = time.monotonic()
        try:
            for fragment in _given(source, facts):
                try:
                    fragments.append((_checked(fragment, source), source, time.monotonic() - began))
                except WrongValue as error:
                    then = "The fragment is not sent."
                    warnings.append(_label(source, owners).failed("fragments", error, then=then))
        except CodexError as error:
            warnings.append(f"{_label(source, owners)}: {error}. {error.hint}".strip())
        except (Exception, SystemExit) as error:  # a broken source must not stop the user from working
            then = "The rest of its context is left out."
            warnings.append(_label(source, owners).failed("fragments", error, then=then, source=source.fragments))
    parts: dict[str, list[InputText]] = {role: [] for role in _ROLES}
    actors: dict[str, list[tuple[Actor, float]]] = {role: [] for role in _ROLES}
    recorded: dict[str, Any] = {}
    known = None if facts.first else history
    for fragment, source, seconds in sorted(fragments, key=lambda given: given[0].order):
        if fragment.recorded:
            recorded.update(fragment.recorded)
        text = _news(fragment, None if known is None else known.last_with(fragment.start))
        if text:
            parts[fragment.role].append(InputText(text))
            actors[fragment.role].append((_actor(source, owners), seconds))
    messages = [Message(role=role, content=tuple(texts)) for role, texts in parts.items() if texts]
    by = tuple(tuple(actors[message.role]) for message in messages)
    return ContextUpdate(tuple(messages), tuple(warnings), by, recorded)


def sources_of(update: ContextUpdate) -> list[Source]:
    """Return the source of each part of an update."""
    return [
        Source(by=by, item=mark, part=part, seconds=seconds)
        for mark, actors in zip(map(mark_of, update.messages), update.actors, strict=True)
        for part, (by, seconds) in enumerate(actors)
    ]


def _actor(source: ContextSource, owners: Mapping[tuple[str, str], str]) -> Actor:
    plugin = owners.get(("context_sources", source.name), "")
    return Actor(role="context source", name=source.name, plugin=plugin)


def _news(fragment: Fragment, last: str | None) -> str:
    """Return the text to send, given the newest text in the history with the fragment's markers. Empty means nothing."""
    if last is None or last == fragment.revocation:
        return fragment.text
    if not fragment.text:
        return fragment.revocation
    return "" if last in (fragment.text, fragment.replacement) else fragment.replacement or fragment.text


def _label(source: ContextSource, owners: Mapping[tuple[str, str], str]) -> Label:
    return Label("context source", source.name, owners.get(("context_sources", source.name), ""))


def _given(source: ContextSource, facts: TurnFacts) -> Iterable[object]:
    given: object = source.fragments(facts)
    if isinstance(given, str) or not isinstance(given, Iterable):
        hint = "Return a list of Fragment, or yield them."
        raise WrongValue(f"it returned {kind_of(given)}, not a list of Fragment", source.fragments, hint=hint)
    return given


def _misfit(fragment: Fragment) -> str:
    """Return what is wrong with the fields of a fragment. Most are right, so the full check is imported only for the others."""
    order: object = fragment.order
    values = fragment.__dict__
    if isinstance(order, int) and {type(values.get(name)) for name in _TEXTS} == {str}:
        return ""
    from codex_framework.toolkit.fitting import misfit

    return misfit(fragment)


def _checked(fragment: object, source: ContextSource) -> Fragment:
    found = checked(fragment, Fragment, "it", source.fragments)
    problem = _misfit(found)
    if not problem and found.role not in _ROLES:
        problem = f"its `role` is {found.role!r}, not 'developer' or 'user'"
    if not problem and found.recorded:
        problem = unrecordable(found.recorded)
    if problem:
        hint = "Set the field to such a value."
        raise WrongValue(f"its fragment {found.start!r} is wrong: {problem}", source.fragments, hint=hint)
    return found


def unrecordable(recorded: object) -> str:
    """Return why fields cannot be recorded. Empty means that they can."""
    if not isinstance(recorded, Mapping) or not all(isinstance(name, str) for name in recorded):
        return f"its `recorded` is {kind_of(recorded)}, not a mapping by name"
    import json

    try:
        json.dumps(dict(recorded), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its `recorded` is not plain JSON data: {error}"
    return ""
