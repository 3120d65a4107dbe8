"""The prices of tokens from the configuration and the model catalogues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from codex_framework import ModelCatalogue, ModelInfo, ModelPrices, ModelProvider, PluginContext, ProviderInfo
from codex_plugin_usage.amounts import Amounts
from codex_plugin_usage.settings import Settings

__all__ = ["Cost", "PriceOf", "cost_of", "known_prices", "prices_for"]

PriceOf: TypeAlias = Callable[[str, str], ModelPrices | None]
"""Returns the prices of a model, by provider id and model. None if they are unknown."""

Cost: TypeAlias = Mapping[str, float]
"""Amounts of money by currency."""

_MILLION = 1_000_000


def cost_of(amounts: Amounts, prices: ModelPrices) -> float:
    """Return the cost of tokens. Each token is counted once, at the price of its kind."""
    plain = max(amounts.input - amounts.cached_input - amounts.cache_write, 0)
    cached = prices.input if prices.cached_input is None else prices.cached_input
    written = prices.input if prices.cache_write is None else prices.cache_write
    total = plain * prices.input + amounts.cached_input * cached + amounts.cache_write * written
    return (total + amounts.output * prices.output) / _MILLION


def known_prices(table: Mapping[str, ModelPrices]) -> PriceOf:
    """Return the prices of a table by model or ``provider/model``; the latter has priority."""
    return lambda provider, model: table.get(f"{provider}/{model}") or table.get(model)


def prices_for(plugin: PluginContext, warn: Callable[[str], None]) -> PriceOf:
    """Return the prices that a kernel knows: first ``[framework.plugins.usage.prices]``, then its catalogues.

    Args:
        warn: Receives a sentence about each catalogue that fails.

    Raises:
        ConfigError: The settings of the plugin are invalid.
    """
    configured = known_prices(plugin.settings(Settings).prices)
    providers = {name: offer.item for name, offer in plugin.offered(ModelProvider).items()}  # type: ignore[type-abstract]
    catalogues = {name: offer.item for name, offer in plugin.offered(ModelCatalogue).items()}  # type: ignore[type-abstract]
    wires = _wires(plugin, providers)
    found: dict[tuple[str, str], ModelPrices | None] = {}

    def price(provider: str, model: str) -> ModelPrices | None:
        if (prices := configured(provider, model)) is not None:
            return prices
        if (provider, model) not in found:
            found[provider, model] = catalogued(provider, model)
        return found[provider, model]

    def catalogued(provider: str, model: str) -> ModelPrices | None:
        for name, catalogue in catalogues.items():
            asked = partial(catalogue.model, model, ProviderInfo(id=provider))
            if (prices := _prices(asked, f"the model catalogue {name}", model, warn)) is not None:
                return prices
        offer = providers.get(wires.get(provider, ""))
        if offer is None:
            return None
        return _prices(partial(offer.model, model), f"the model provider {offer.name}", model, warn)

    return price


def _wires(plugin: PluginContext, providers: Mapping[str, ModelProvider]) -> dict[str, str]:
    """Return the wire of each provider id."""
    wires = {key: info.wire_api for offer in providers.values() for key, info in offer.builtin.items()}
    tables = plugin.config.get("model_providers") or {}
    wires |= {
        key: str(table.get("wire_api", "responses")) for key, table in tables.items() if isinstance(table, Mapping)
    }
    return wires


def _prices(
    ask: Callable[[], ModelInfo | None], whom: str, model: str, warn: Callable[[str], None]
) -> ModelPrices | None:
    try:
        info = ask()
        prices = None if info is None else info.prices
    except Exception as error:  # a plugin may raise anything
        warn(f"{whom} could not be asked for the prices of {model}: {error}")
        return None
    return prices if isinstance(prices, ModelPrices) else None
