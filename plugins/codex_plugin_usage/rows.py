"""The rows of a report."""

from __future__ import annotations

from typing import Any

import attrs

from codex_plugin_usage.amounts import Amounts
from codex_plugin_usage.calls import Call
from codex_plugin_usage.prices import PriceOf, cost_of

__all__ = ["Row", "ToolRow"]

ModelKey = tuple[str, str]
"""Provider id and model."""


@attrs.define
class Row:
    """The usage of a thread, model, day or project.

    Attributes:
        key: The thread's id, the model, the day (``2026-11-20``) or the folder.
        responses: The number of responses that reported usage.
        threads: The ids of the threads.
        by_model: Tokens by provider and model.
        first_at, last_at: Unix seconds of the first and the last response.
        details: Further facts: a thread's name, folder and origin, or a model's provider.
    """

    key: str
    responses: int = 0
    threads: set[str] = attrs.field(factory=set)
    by_model: dict[ModelKey, Amounts] = attrs.field(factory=dict)
    first_at: float = 0.0
    last_at: float = 0.0
    details: dict[str, Any] = attrs.field(factory=dict)

    def add(self, amounts: Amounts, at: float, model: ModelKey, thread: str) -> None:
        """Add a response."""
        self.responses += 1
        self.threads.add(thread)
        known = self.by_model.get(model)
        self.by_model[model] = amounts if known is None else known + amounts
        self.first_at = min(self.first_at or at, at)
        self.last_at = max(self.last_at, at)

    @property
    def amounts(self) -> Amounts:
        """All tokens."""
        return sum(self.by_model.values(), Amounts())

    def cost(self, price: PriceOf) -> tuple[dict[str, float], list[str]]:
        """Return the cost by currency, and the models without known prices, whose tokens are not in it."""
        costs: dict[str, float] = {}
        unpriced = []
        for (provider, model), amounts in sorted(self.by_model.items()):
            prices = price(provider, model)
            if prices is None:
                unpriced.append(f"{provider}/{model}")
            else:
                costs[prices.currency] = costs.get(prices.currency, 0.0) + cost_of(amounts, prices)
        return costs, unpriced

    def as_json(self, price: PriceOf) -> dict[str, Any]:
        """Return the row for programs."""
        amounts = self.amounts
        costs, unpriced = self.cost(price)
        return {
            "key": self.key,
            **self.details,
            "sessions": len(self.threads),
            "responses": self.responses,
            "tokens": {
                "input": amounts.input,
                "cached_input": amounts.cached_input,
                "cache_write_input": amounts.cache_write,
                "output": amounts.output,
                "reasoning_output": amounts.reasoning,
                "total": amounts.total,
            },
            "models": sorted({model for _, model in self.by_model}),
            "cost": {currency: round(cost, 9) for currency, cost in costs.items()} or None,
            "unpriced": unpriced,
        }


@attrs.define
class ToolRow:
    """The calls of a tool, or of a plugin's tools.

    Attributes:
        key: The tool or the plugin.
        plugin: The plugin that offers the tool, if known.
        failures: Calls whose record says that they failed.
        unfinished: Calls without an output, although one was to be expected.
        seconds: The time of the calls whose time is known.
        threads: The ids of the threads.
        by_model: Estimated tokens of the outputs, by the provider and model that read them.
    """

    key: str
    plugin: str | None = None
    calls: int = 0
    failures: int = 0
    unfinished: int = 0
    seconds: float = 0.0
    threads: set[str] = attrs.field(factory=set)
    by_model: dict[ModelKey, int] = attrs.field(factory=dict)

    def add(self, call: Call, thread: str) -> None:
        """Add a call."""
        self.calls += 1
        self.failures += call.failed is True
        self.unfinished += call.tokens is None and not call.hosted
        self.seconds += call.seconds or 0.0
        self.threads.add(thread)
        self.by_model[call.model] = self.by_model.get(call.model, 0) + (call.tokens or 0)

    @property
    def tokens(self) -> int:
        """The estimated tokens of the outputs."""
        return sum(self.by_model.values())

    def cost(self, price: PriceOf) -> tuple[dict[str, float], list[str]]:
        """Return the cost of the outputs if each is read once and not from a cache, and the models without known prices."""
        spent = {model: Amounts(input=tokens) for model, tokens in self.by_model.items()}
        return Row(self.key, by_model=spent).cost(price)

    def as_json(self, price: PriceOf) -> dict[str, Any]:
        """Return the row for programs."""
        costs, unpriced = self.cost(price)
        return {
            "key": self.key,
            "plugin": self.plugin,
            "sessions": len(self.threads),
            "calls": self.calls,
            "failures": self.failures,
            "unfinished": self.unfinished,
            "seconds": round(self.seconds, 3),
            "estimated_output_tokens": self.tokens,
            "estimated_cost": {currency: round(cost, 9) for currency, cost in costs.items()} or None,
            "unpriced": unpriced,
        }
