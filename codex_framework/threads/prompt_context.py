"""Collects the context fragments that are new or changed since they last appeared in the history."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.items import PACKED, InputText, Message
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.contract.roles.context import READABLE, ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.value import Value, field
from codex_framework.threads.faults import Label, WrongValue, check_type, kind_of
from codex_framework.threads.history import History

__all__ = ["ContextUpdate", "FirstContexts", "PromptContext", "unrecordable"]

_FRESH_NS = 100_000_000
"""A file that changed within this time may change again without new timestamps, because file systems have coarse clocks."""

_MOST_FOLDERS = 64
"""Folders whose first context is kept. A thread in a folder that was forgotten asks all sources."""

_NO_FILES = hash(())
_SERIAL = itertools.count()
"""Numbers for the states of such files, each used once."""

_ROLES = ("developer", "user")
_TEXTS = ("role", "text", "start", "end", "replacement", "revocation")


class ContextUpdate(Value):
    """The context to record before the input of a turn.

    Attributes:
        messages: At most one developer message and one user message, in that order.
        warnings: Warnings for the user about sources that failed.
        actors: For each part of each message its source, and how long this took, in seconds.
        recorded: Additions of the sources to the record of the turn's settings.
    """

    messages: tuple[Message, ...]
    warnings: tuple[str, ...]
    actors: tuple[tuple[tuple[Actor, float], ...], ...] = ()
    recorded: Mapping[str, Any] = field(factory=dict)


class PromptContext:
    """The context of one thread. It keeps each source's result until a fact that the source reads has changed.

    Args:
        sources: The sources that the thread's agent uses, in order.
        owners: The plugin of each offer, by role and name.
        others: The context of other threads.
    """

    def __init__(
        self,
        sources: Sequence[ContextSource],
        owners: Mapping[tuple[str, str], str] = MappingProxyType({}),
        others: FirstContexts | None = None,
    ) -> None:
        self._sources = sources
        self._owners = owners
        self._others = others or FirstContexts()
        declared = (getattr(source, "reads", None) for source in sources)
        self._words = frozenset().union(*(reads for reads in declared if reads is not None)) - {"files"}
        self._facts: dict[str, object] = {}
        self._kept: dict[str, _Answer] = {}

    def update(self, facts: TurnFacts, history: History | None) -> ContextUpdate:
        """Return new and changed context. If ``history`` is None, return all context."""
        warnings: list[str] = []
        parts: dict[str, list[str]] = {role: [] for role in _ROLES}
        actors: dict[str, list[tuple[Actor, float]]] = {role: [] for role in _ROLES}
        recorded: dict[str, Any] = {}
        known = None if facts.first else history
        answers = self._answers(facts, warnings)
        fragments = ((fragment, answer) for answer in answers for fragment in answer.fragments)
        for fragment, answer in sorted(fragments, key=_order):
            if fragment.recorded:
                recorded.update(fragment.recorded)
            text = _text_to_send(fragment, None if known is None else known.last_with(fragment.start))
            if text:
                parts[fragment.role].append(text)
                actors[fragment.role].append((answer.actor, answer.seconds))
        messages = [_message(role, tuple(texts)) for role, texts in parts.items() if texts]
        by = tuple(tuple(actors[message.role]) for message in messages)
        return ContextUpdate(tuple(messages), tuple(warnings), by, recorded)

    def _answers(self, facts: TurnFacts, warnings: list[str]) -> Sequence[_Answer]:
        """Return the answers of all sources. Only those are asked whose facts or files have changed."""
        is_new = facts.first and not self._kept
        if is_new:
            self._facts, self._kept = self._others.find(facts.cwd, self._sources)
        changed = self._changes(facts)
        files = _FileStates()
        answers: list[_Answer] = []
        for source in self._sources if changed else ():
            if source.name in self._kept and source.reads & changed:  # type: ignore[operator]  # kept: it declares them
                del self._kept[source.name]  # before any is asked: one may raise what ends the turn
        for source in self._sources:
            answer = self._kept.get(source.name)
            if answer is None or files.state(answer.files) != answer.state:
                answer = self._ask(source, facts, files, warnings)
            if answer is not None:
                answers.append(answer)
        if is_new:
            self._others.keep(facts.cwd, self._facts, self._kept)
        return answers

    def _changes(self, facts: TurnFacts) -> set[str]:
        """Return the words of the facts that have changed since the last turn, among those that a source reads."""
        changed = set()
        for word in self._words:
            values = _today() if word == "date" else tuple([getattr(facts, name) for name in READABLE[word]])
            if self._facts.get(word) != values:
                self._facts[word] = values
                changed.add(word)
        return changed

    def _ask(self, source: ContextSource, facts: TurnFacts, files: _FileStates, warnings: list[str]) -> _Answer | None:
        """Return the fragments of a source, if any, and keep them if it declares ``reads``. Errors become warnings."""
        fragments: list[Fragment] = []
        problems = len(warnings)
        began = time.monotonic()
        reads = getattr(source, "reads", None)
        answer = None if reads is None else _Answer(self._actor(source))
        try:
            if answer is not None and "files" in source.reads:  # type: ignore[operator]
                answer.files = _paths(source, facts)
                answer.state = files.state(answer.files)
            for fragment in _asked_fragments(source, facts):
                try:
                    fragments.append(_check_fragment(fragment, source))
                except WrongValue as error:
                    then = "The fragment is not sent."
                    warnings.append(self._label(source).describe_failure("fragments", error, then=then))
        except CodexError as error:
            warnings.append(f"{self._label(source)}: {error}. {error.hint}".strip())
        except (Exception, SystemExit) as error:  # a broken source must not stop the user from working
            then = "The rest of its context is left out."
            warnings.append(
                self._label(source).describe_failure("fragments", error, then=then, source=source.fragments)
            )
        if answer is not None and len(warnings) == problems:
            self._kept[source.name] = answer
        else:
            self._kept.pop(source.name, None)
        if fragments:
            answer = answer or _Answer(self._actor(source))
            answer.fragments = tuple(fragments)
            answer.seconds = time.monotonic() - began
        return answer

    def _actor(self, source: ContextSource) -> Actor:
        return Actor(role="context source", name=source.name, plugin=self._owner(source))

    def _label(self, source: ContextSource) -> Label:
        return Label("context source", source.name, self._owner(source))

    def _owner(self, source: ContextSource) -> str:
        return self._owners.get(("context_sources", source.name), "")


class FirstContexts:
    """The results of sources in the first turns of a kernel's threads. Most threads of a folder begin with the same context."""

    def __init__(self) -> None:
        self._folders: dict[Path, tuple[dict[str, object], dict[str, _Answer]]] = {}

    def find(self, folder: Path, sources: Sequence[ContextSource]) -> tuple[dict[str, object], dict[str, _Answer]]:
        """Return the facts of the last first turn in a folder, and what these sources returned then."""
        facts, kept = self._folders.get(folder, ({}, {}))
        return dict(facts), {source.name: kept[source.name] for source in sources if source.name in kept}

    def keep(self, folder: Path, facts: Mapping[str, object], kept: Mapping[str, _Answer]) -> None:
        """Keep the facts of a first turn, and the results of the sources."""
        if len(self._folders) >= _MOST_FOLDERS:
            self._folders.clear()
        self._folders[folder] = dict(facts), dict(kept)


class _Answer:
    """The fragments of a source.

    Attributes:
        actor: The source.
        seconds: How long this took.
        state: The state of ``files`` before the source was asked.
    """

    __slots__ = ("actor", "files", "fragments", "seconds", "state")

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.fragments: tuple[Fragment, ...] = ()
        self.seconds = 0.0
        self.files: tuple[str, ...] = ()
        self.state = _NO_FILES


class _FileStates:
    """The states of files within one turn. Each file is checked once, even if several sources read it."""

    def __init__(self) -> None:
        self._known: dict[str, object] = {}
        self._now = time.time_ns()

    def state(self, paths: tuple[str, ...]) -> int:
        """Return a number that changes when one of the files does."""
        return hash(tuple([self._known[path] if path in self._known else self._look_at(path) for path in paths]))

    def _look_at(self, path: str) -> object:
        state: object
        try:
            found = os.stat(path)  # noqa: PTH116  # in each turn
            state = found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
            if abs(self._now - found.st_ctime_ns) < _FRESH_NS:
                state = (next(_SERIAL),)
        except (OSError, ValueError) as error:
            state = getattr(error, "errno", None)
        self._known[path] = state
        return state


@lru_cache(maxsize=8)
def _message(role: str, texts: tuple[str, ...]) -> Message:
    """Return a message with its JSON. The threads of a kernel begin with the same ones."""
    message = Message(role=role, content=tuple(map(InputText, texts)))
    message.__dict__[PACKED] = encode_item(message)
    return message


def _order(answer: tuple[Fragment, _Answer]) -> int:
    return answer[0].order


def _today() -> object:
    return sys.intern(time.strftime("%Y-%m-%d")), os.environ.get("TZ")


def _paths(source: ContextSource, facts: TurnFacts) -> tuple[str, ...]:
    """Return the paths that a source reads. They are interned, because many threads read the same files."""
    return tuple(sys.intern(os.fspath(path)) for path in source.files(facts))


def _text_to_send(fragment: Fragment, last: str | None) -> str:
    """Return the text to send, given the newest text in the history with the fragment's markers. Empty means nothing."""
    if last is None or last == fragment.revocation:
        return fragment.text
    if not fragment.text:
        return fragment.revocation
    return "" if last in (fragment.text, fragment.replacement) else fragment.replacement or fragment.text


def _asked_fragments(source: ContextSource, facts: TurnFacts) -> Iterable[object]:
    given: object = source.fragments(facts)
    if type(given) in (list, tuple):
        return given  # type: ignore[return-value]
    if isinstance(given, str) or not isinstance(given, Iterable):
        hint = "Return a list of Fragment, or yield them."
        raise WrongValue(f"it returned {kind_of(given)}, not a list of Fragment", source.fragments, hint=hint)
    return given


def _field_problem(fragment: Fragment) -> str:
    """Return the problem with the fields of a fragment. Most are valid, so the full check is imported only for the others."""
    order: object = fragment.order
    values = fragment.__dict__
    if isinstance(order, int) and {type(values.get(name)) for name in _TEXTS} == {str}:
        return ""
    from codex_framework.toolkit.validation import type_error

    return type_error(fragment)


def _check_fragment(fragment: object, source: ContextSource) -> Fragment:
    found = check_type(fragment, Fragment, "it", source.fragments)
    problem = _field_problem(found)
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
