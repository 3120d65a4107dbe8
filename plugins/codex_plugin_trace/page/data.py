"""The data of a page: a timeline as one flat list of rows, in plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from codex_plugin_trace.prices import PriceOf, cost_of, no_prices
from codex_plugin_trace.reading.timeline import Part, Step, Timeline, Tokens, spent

__all__ = ["page_data"]

_LONGEST_PART = 50_000
"""Characters of one section that the page contains."""

_LONGEST_PAGE = 40_000_000
"""Characters of all sections together. When they are used up, each further section has ``_SHORT``."""

_SHORT = 1_000


class Rows:
    """Collects the rows of a page.

    Attributes:
        unpriced: The models with tokens whose prices are unknown.
    """

    def __init__(self, price: PriceOf) -> None:
        self._price = price
        self.unpriced: set[str] = set()
        self.rows: list[dict[str, Any]] = []
        self._base = 0.0
        self._used = 0

    def add(self, timeline: Timeline) -> None:
        """Add the rows of all threads, each turn after the other."""
        starts = [
            step.start for thread in timeline.threads for step in (thread, *thread.all()) if step.start is not None
        ]
        self._base = min(starts, default=0.0)
        several = len(timeline.threads) > 1
        number = 0
        for thread in timeline.threads:
            if several or thread.parts:
                self._row(thread, 0)
            for child in thread.children:
                if child.kind != "turn":
                    self._row(child, 1)
                    continue
                number += 1
                self._turn(child, number)

    @property
    def base(self) -> float:
        """The time of the first row, in Unix seconds."""
        return self._base

    def _turn(self, turn: Step, number: int) -> None:
        place = len(self.rows)
        row = self._row(turn, 1)
        prompt = next((step.title for step in turn.children if step.kind == "user"), "")
        row["n"] = f"{turn.title} {number}{f': {prompt}' if prompt else ''}"
        row["spent"] = {name: round(seconds, 4) for name, seconds in spent(turn).items()}
        if (total := turn.total) is not None:
            row["tok"] = _tokens(total)
        if cost := self._cost(turn.all()):
            row["cost"] = cost
        for step, depth in _flat(turn, 2):
            self._row(step, depth)["turn"] = place

    def _row(self, step: Step, depth: int) -> dict[str, Any]:
        row: dict[str, Any] = {"k": step.kind, "n": step.title.strip() or step.kind}
        more = {
            "d": depth,
            "t": None if step.start is None else round(step.start - self._base, 4),
            "e": None if step.start is None or step.end is None else round(max(step.end - step.start, 0.0), 4),
            "s": step.state or None,
            "o": step.note or None,
            "tok": None if step.tokens is None else _tokens(step.tokens),
            "cost": self._cost((step,)) or None,
            "p": [self._part(part) for part in step.parts] or None,
        }
        row |= {name: value for name, value in more.items() if value is not None}
        self.rows.append(row)
        return row

    def _cost(self, steps: Iterable[Step]) -> dict[str, float]:
        """Return the cost of the tokens of steps by currency, as far as their prices are known."""
        total: dict[str, float] = {}
        for step in steps:
            if step.tokens is None:
                continue
            prices = self._price(*step.model)
            if prices is None:
                self.unpriced.add(step.model[1] or "an unknown model")
            else:
                total[prices.currency] = total.get(prices.currency, 0.0) + cost_of(step.tokens, prices)
        return {currency: round(amount, 9) for currency, amount in total.items()}

    def _part(self, part: Part) -> list[str]:
        longest = _LONGEST_PART if self._used < _LONGEST_PAGE else _SHORT
        shown = part.text
        if len(shown) > longest:
            shown = (
                f"{shown[:longest]}\n[{len(part.text) - longest} more characters are in the file, and not on this page]"
            )
        self._used += len(shown)
        return [part.label, part.kind, shown]


def page_data(timeline: Timeline, price: PriceOf = no_prices) -> dict[str, Any]:
    """Return the data of the page for a timeline."""
    rows = Rows(price)
    rows.add(timeline)
    return {
        "title": timeline.title,
        "facts": timeline.facts,
        "warnings": timeline.warnings,
        "base": rows.base,
        "unpriced": sorted(rows.unpriced),
        "rows": rows.rows,
    }


def _flat(step: Step, depth: int) -> Iterator[tuple[Step, int]]:
    for child in step.children:
        yield child, depth
        yield from _flat(child, depth + 1)


def _tokens(tokens: Tokens) -> list[int]:
    return [tokens.input, tokens.cached, tokens.output, tokens.reasoning]
