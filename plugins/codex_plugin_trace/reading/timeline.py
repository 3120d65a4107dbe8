"""A timeline: the threads of a trace or a session, with their turns, and the steps of each turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

__all__ = ["Part", "Step", "Timeline", "Tokens", "spent"]

Interval = tuple[float, float]


@attrs.frozen
class Part:
    """One section of the details of a step.

    Attributes:
        kind: ``text``, ``markdown``, ``json``, ``command`` or ``diff``.
    """

    label: str
    text: str
    kind: str = "text"


@attrs.frozen
class Tokens:
    """Numbers of tokens. ``cached`` and ``written`` (to the cache) are part of ``input``, and ``reasoning`` of ``output``."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    written: int = 0

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum."""
        return Tokens(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.written + other.written,
        )


@attrs.define
class Step:
    """A thread, a turn, or an event in it.

    Attributes:
        kind: ``thread``, ``turn``, ``user``, ``model``, ``reasoning``, ``message``, ``tool``, ``approval``, ``sandbox``,
            ``command``, ``plan``, ``error``, ``warning``, ``compaction``, ``context``, ``span`` or ``event``.
        start, end: Unix seconds. None means unknown. A step without ``end`` is a moment, or did not end.
        state: ``failed``, ``refused``, ``unfinished``, or empty.
        note: A few words beside the title.
        model: The provider and the model that the tokens are of.
    """

    kind: str
    title: str
    start: float | None = None
    end: float | None = None
    state: str = ""
    note: str = ""
    tokens: Tokens | None = None
    model: tuple[str, str] = ("", "")
    parts: list[Part] = attrs.field(factory=list)
    children: list[Step] = attrs.field(factory=list)

    def part(self, label: str, text: str, kind: str = "text") -> None:
        """Add a section to the details, or replace the one with this label. An empty text is left out."""
        if not text:
            return
        made = Part(label, text, kind)
        for place, part in enumerate(self.parts):
            if part.label == label:
                self.parts[place] = made
                return
        self.parts.append(made)

    def has(self, label: str) -> bool:
        """Return whether the details have a section with this label."""
        return any(part.label == label for part in self.parts)

    def all(self) -> Iterator[Step]:
        """Yield all steps below this one."""
        for child in self.children:
            yield child
            yield from child.all()

    def sort(self) -> None:
        """Sort the steps below this one by their start. A step without a start keeps its place after the previous step."""
        latest = 0.0
        keys = {}
        for child in self.children:
            latest = latest if child.start is None else child.start
            keys[id(child)] = (latest, child.kind != "sandbox")  # a sandbox starts before what it confines
            child.sort()
        self.children.sort(key=lambda child: keys[id(child)])

    @property
    def total(self) -> Tokens | None:
        """The tokens of all steps below this one. None if nothing is known."""
        found = [step.tokens for step in self.all() if step.tokens is not None]
        whole = Tokens()
        for each in found:
            whole = whole.plus(each)
        return whole if found else None


@attrs.define
class Timeline:
    """The content of a page.

    Attributes:
        title: The first message of the user, or else the name of the file or of the thread.
        facts: Further facts, each with its name.
        threads: The threads, with their turns below them.
        warnings: The problems of the file, as sentences.
    """

    title: str
    facts: list[tuple[str, str]] = attrs.field(factory=list)
    threads: list[Step] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)

    def name_by_first_message(self) -> None:
        """Make the first message of the user the title, if there is one."""
        messages = (step.title for thread in self.threads for step in thread.all() if step.kind == "user")
        self.title = next(messages, self.title)


def spent(turn: Step) -> dict[str, float]:
    """Return how a turn spent its time, in seconds: ``approval``, ``tool``, ``model`` and ``other``.

    At a moment when several things happen, the first of these counts.
    """
    kinds = {"approval": {"approval"}, "tool": {"tool"}, "model": {"model", "compaction"}}
    result: dict[str, float] = {}
    taken: list[Interval] = []
    before = 0.0
    for name, members in kinds.items():
        taken = _union([*taken, *_intervals(step for step in turn.all() if step.kind in members)])
        covered = sum(end - start for start, end in taken)
        result[name] = covered - before
        before = covered
    whole = (turn.end or 0.0) - (turn.start or 0.0)
    result["other"] = max(whole - before, 0.0)
    return result


def _intervals(steps: Iterable[Step]) -> Iterator[Interval]:
    for step in steps:
        if step.start is not None and step.end is not None and step.end > step.start:
            yield step.start, step.end


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
