"""The usage of a thread and its children, checked against their limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from codex_framework.contract.protocol.events import (
    EventMsg,
    TokenCountEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.roles.models import ModelInfo, ModelPrices
from codex_framework.contract.roles.outcomes import Limits, Usage
from codex_framework.contract.roles.stores import PluginEntry
from codex_framework.contract.value import Value, field, fields_of

__all__ = ["BUDGET_KIND", "Budget", "Spent", "cost_of", "spent_so_far"]

BUDGET_KIND = "budget"
"""The kind of the kernel's entries about the usage of a thread."""

_MOST = 2**63
"""No thread spends more than that, in whatever unit."""

_FIELDS = ("requests", "turns", "tokens", "tool_calls", "seconds", "cost")


class Spent(Value, kw_only=True):
    """The usage of a thread and its children.

    Attributes:
        tokens: The total of input and output.
        seconds: Time in which turns were running. Concurrent turns count once.
        cost: Money, in the currency of the models' prices.
        children: The tokens of children alone.
        kept: Whether the record contains this and must be kept up to date.
    """

    requests: int = 0
    turns: int = 0
    tokens: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    children: TokenUsage = TokenUsage()
    kept: bool = field(default=False, eq=False)


class Budget:
    """Counts the usage of a thread. The usage of a child also counts for its parent.

    Args:
        limits: The limits.
        parent: The budget of the thread that spawned this one.
        spent: The earlier usage of the thread.
        keep: Records the usage at the end of each turn of the thread or of a child. Only called with limits, or after usage of
            a child, because the thread's own events do not show either.
        warn: Tells the user a sentence.

    Attributes:
        children: The tokens of all children, earlier runs included.
    """

    _unpriced: frozenset[str] = frozenset()

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        *,
        parent: Budget | None = None,
        spent: Spent = Spent(),  # noqa: B008
        keep: Callable[[Mapping[str, Any]], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.limits = limits
        self._limited = limits != Limits()
        self._spent = {name: getattr(spent, name) for name in _FIELDS}
        self.children = spent.children
        self._is_kept = self._limited or spent.kept
        self._billed = (spent.requests, spent.tool_calls)
        self._unbilled_tokens = TokenUsage()
        self._parent = parent
        self._keep = keep
        self._warn = warn
        self._running = 0
        self._running_since: float | None = None

    @property
    def spent(self) -> Spent:
        """The usage so far."""
        return Spent(**{**self._spent, "seconds": self._elapsed_seconds()}, children=self.children, kept=self._is_kept)

    def bill(self) -> Usage:
        """Return the usage of the thread and its children since the last call."""
        requests, tool_calls = self._billed
        usage = Usage(self._spent["requests"] - requests, self._spent["tool_calls"] - tool_calls, self._unbilled_tokens)
        self._billed = (self._spent["requests"], self._spent["tool_calls"])
        self._unbilled_tokens = TokenUsage()
        return usage

    def request(self) -> None:
        """Count a request."""
        self._add("requests", 1)

    def tool_call(self) -> None:
        """Count a call of a tool."""
        self._add("tool_calls", 1)

    def tokens(self, usage: TokenUsage, model: ModelInfo) -> None:
        """Count the tokens of a response, and their cost."""
        self._add("tokens", usage.total_tokens)
        self._unbilled_tokens += usage
        if self._parent is not None:
            self._parent._add_child_tokens(usage)  # noqa: SLF001  # another budget
        if model.prices is not None:
            self._add("cost", cost_of(usage, model.prices))
        else:
            self._warn_of_unpriced_model(model.slug)

    def begin(self) -> None:
        """Count a turn, and start to count its time, here and in the threads above."""
        self._spent["turns"] += 1
        self._start_clock()

    def end(self) -> None:
        """Stop counting the time of a turn, and record the usage, here and in the threads above."""
        self._running -= 1
        if self._running == 0:
            self._spent["seconds"] = self._elapsed_seconds()
            self._running_since = None
        if self._is_kept and self._keep is not None:
            spent = {**self._spent, "seconds": self._elapsed_seconds()}
            data = {name: round(value, 6) for name, value in spent.items()}
            self._keep(data if self.children == TokenUsage() else {**data, "children": _counts(self.children)})
        if self._parent is not None:
            self._parent.end()

    def _start_clock(self) -> None:
        self._running += 1
        if self._running_since is None:
            self._running_since = time.monotonic()
        if self._parent is not None:
            self._parent._start_clock()  # noqa: SLF001  # another budget

    def reached_limit(self) -> str | None:
        """Return a sentence about a limit that this thread or one above it has reached, if there is one."""
        found = self._own_limit() if self._limited else None
        if found is not None or self._parent is None:
            return found
        return self._parent.reached_limit()

    def _add(self, name: str, amount: float) -> None:
        self._spent[name] += amount
        if self._parent is not None:
            self._parent._add(name, amount)  # noqa: SLF001  # another budget

    def _add_child_tokens(self, usage: TokenUsage) -> None:
        self._is_kept = True
        self._unbilled_tokens += usage
        self.children += usage
        if self._parent is not None:
            self._parent._add_child_tokens(usage)  # noqa: SLF001

    def _own_limit(self) -> str | None:
        for name in _FIELDS:
            most = getattr(self.limits, name)
            used = self._elapsed_seconds() if name == "seconds" else self._spent[name]
            # The running turn has been counted already, and may be the last one.
            if most is not None and (used > most if name == "turns" else used >= most):
                return f"the limit of {most:g} {_NOUNS.get(name, name)} is reached"
        return None

    def _elapsed_seconds(self) -> float:
        running = 0.0 if self._running_since is None else time.monotonic() - self._running_since
        return float(self._spent["seconds"] + running)

    def _warn_of_unpriced_model(self, model: str) -> None:
        """Warn once for each model that a limit of money does not cover."""
        if self.limits.cost is not None and self._warn is not None and model not in self._unpriced:
            self._warn(f"no price is known for the model {model}, so the limit of its cost has no effect")
            self._unpriced |= {model}
        if self._parent is not None:
            self._parent._warn_of_unpriced_model(model)  # noqa: SLF001


_NOUNS = {"tool_calls": "tool calls", "cost": "units of money"}


def cost_of(usage: TokenUsage, prices: ModelPrices) -> float:
    """Return the cost of a response's tokens, in the currency of the prices."""
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    written = min(usage.cache_write_input_tokens, usage.input_tokens - cached)
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    write_price = prices.input if prices.cache_write is None else prices.cache_write
    plain = usage.input_tokens - cached - written
    amount = plain * prices.input + cached * cached_price + written * write_price + usage.output_tokens * prices.output
    return amount / 1_000_000


def spent_so_far(past: Iterable[EventMsg], entries: Sequence[PluginEntry]) -> Spent:
    """Return the usage of a stored thread: the value recorded by its last turn with limits, or otherwise the sum from its events.

    An impossible recorded value, such as NaN or a negative number, would lift a limit, so the sum from the events replaces it.
    """
    told = _sum_spending(past)
    for entry in reversed(entries):
        if entry.kind == BUDGET_KIND and not entry.plugin:
            amounts = {name: entry.data[name] for name in _FIELDS if _is_amount(entry.data.get(name))}
            return told.evolve(**amounts, children=_read_counts(entry.data.get("children")), kept=True)
    return told


def _counts(usage: TokenUsage) -> dict[str, int]:
    return {each.name: getattr(usage, each.name) for each in fields_of(TokenUsage)}


def _read_counts(data: object) -> TokenUsage:
    if not isinstance(data, Mapping):
        return TokenUsage()
    return TokenUsage(**{each.name: data.get(each.name, 0) for each in fields_of(TokenUsage)}).plausible()


def _is_amount(value: object) -> bool:
    """Return whether a value of a record is a number that a thread can have spent."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST


def _sum_spending(past: Iterable[EventMsg]) -> Spent:
    """Return the usage that the events of a thread report."""
    requests = turns = tokens = duration_ms = 0
    for msg in past:
        match msg:
            case TurnStartedEvent():
                turns += 1
            case TokenCountEvent(info=info) if info is not None:
                requests += 1
                tokens = max(tokens, info.total_token_usage.plausible().total_tokens)
            case TurnCompleteEvent() | TurnAbortedEvent():
                duration_ms += msg.duration_ms if msg.duration_ms and _is_amount(msg.duration_ms) else 0
            case _:
                pass
    return Spent(requests=requests, turns=turns, tokens=tokens, seconds=duration_ms / 1000)
