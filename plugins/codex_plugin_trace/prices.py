"""The known prices of tokens: the user's prices, and prices of model catalogues. No price is ever assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from codex_framework import ModelCatalogue, ModelInfo, ModelPrices, ModelProvider, PluginContext, ProviderInfo
from codex_plugin_trace.reading.plain import mapping, text
from codex_plugin_trace.reading.timeline import Tokens

__all__ = ["PriceOf", "cost_of", "no_prices", "prices_for"]

PriceOf: TypeAlias = Callable[[str, str], ModelPrices | None]
"""Returns the prices of a model, by provider id and model. None if they are unknown."""

_TABLE = ("framework", "plugins", "usage", "prices")
"""The user's prices, by model or ``provider/model``: one table for all that shows costs."""


def no_prices(provider: str, model: str) -> ModelPrices | None:  # noqa: ARG001  # the form of all sources of prices
    """Return None: no price is known."""
    return None


def cost_of(tokens: Tokens, prices: ModelPrices) -> float:
    """Return the cost of tokens. Each token is counted once, at the price of its kind."""
    plain = max(tokens.input - tokens.cached - tokens.written, 0)
    cached = prices.input if prices.cached_input is None else prices.cached_input
    written = prices.input if prices.cache_write is None else prices.cache_write
    total = plain * prices.input + tokens.cached * cached + tokens.written * written + tokens.output * prices.output
    return total / 1_000_000


def prices_for(plugin: PluginContext) -> PriceOf:
    """Return the known prices: from the configuration, then from the catalogues of model providers."""
    table: Any = plugin.config
    for key in _TABLE:
        table = mapping(table).get(key)
    configured = mapping(table)
    providers = {name: offer.item for name, offer in plugin.offered(ModelProvider).items()}  # type: ignore[type-abstract]
    catalogues = [offer.item for offer in plugin.offered(ModelCatalogue).values()]  # type: ignore[type-abstract]
    wires = {key: info.wire_api for provider in providers.values() for key, info in provider.builtin.items()}
    for key, settings in mapping(plugin.config.get("model_providers")).items():
        wires[key] = text(mapping(settings).get("wire_api")) or "responses"

    def price(provider: str, model: str) -> ModelPrices | None:
        own = _configured_prices(configured.get(f"{provider}/{model}")) or _configured_prices(configured.get(model))
        if own is not None:
            return own
        info = ProviderInfo(id=provider)
        found = (_prices(partial(catalogue.model, model, info)) for catalogue in catalogues)
        serving = providers.get(wires.get(provider, ""))
        return next(filter(None, found), None) or (None if serving is None else _prices(partial(serving.model, model)))

    return price


def _configured_prices(table: Any) -> ModelPrices | None:
    """Return prices of the configuration. Invalid ones are unknown here; the plugin whose settings they are reports them."""
    if not isinstance(table, Mapping):
        return None
    try:
        prices = ModelPrices(**table)
        return prices if cost_of(Tokens(1, 0, 1), prices) >= 0 else None
    except (TypeError, ValueError, AttributeError):
        return None


def _prices(ask: Callable[[], ModelInfo | None]) -> ModelPrices | None:
    try:
        info = ask()
        prices = None if info is None else info.prices
    except Exception:  # a plugin may raise anything, and its prices are then unknown
        return None
    return prices if isinstance(prices, ModelPrices) else None
