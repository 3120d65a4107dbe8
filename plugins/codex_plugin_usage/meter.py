"""Counts the usage of running threads from their events."""

from __future__ import annotations

from codex_framework import Event, EventMsg
from codex_framework.contract.protocol.events import TokenCountEvent
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_plugin_usage.amounts import Amounts
from codex_plugin_usage.ledger import growth
from codex_plugin_usage.prices import PriceOf, known_prices
from codex_plugin_usage.rows import Row

__all__ = ["Meter"]


class Meter:
    """The usage since the meter was created. Give it the events of one thread.

    Earlier usage, for example before a resume, does not count.

    Args:
        model: The model, for its prices.
        provider: The id of the model's provider.
        price: The prices of models. None if no prices are known.
    """

    def __init__(self, model: str = "", provider: str = "", price: PriceOf | None = None) -> None:
        self.amounts = Amounts()
        self._model = (provider, model)
        self._price = price or known_prices({})
        self._sum: Amounts | None = None

    def take(self, event: Event | EventMsg) -> bool:
        """Count an event. Return whether anything was used."""
        msg = event.msg if isinstance(event, Event) else event
        if not isinstance(msg, TokenCountEvent) or msg.info is None:
            return False
        total = _amounts(msg.info.total_token_usage)
        grown = growth(self._sum, total, _amounts(msg.info.last_token_usage))
        self._sum = total
        self.amounts += grown
        return bool(grown)

    @property
    def cost(self) -> dict[str, float] | None:
        """The cost by currency. None if the prices are unknown."""
        costs, unpriced = Row("", by_model={self._model: self.amounts}).cost(self._price)
        return None if unpriced else costs


def _amounts(usage: TokenUsage) -> Amounts:
    return Amounts(
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_input_tokens,
        usage.output_tokens,
        usage.reasoning_output_tokens,
    )
