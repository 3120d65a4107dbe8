"""Known models, their properties, and the source of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import ModelCatalogue, ModelInfo, ModelProvider, PluginContext, ProviderInfo, Value
from codex_framework.contract.value import fields_of
from codex_framework.toolkit.faults import Label
from codex_framework.toolkit.model_catalogue import bundled_models, fallback_model
from codex_framework.toolkit.model_checks import asked_model, asked_models
from codex_plugin_models.selected import LOCAL

__all__ = ["Known", "Property", "known_model", "known_models", "properties"]

_BYTES_PER_TOKEN = 4
_SETTINGS = {
    "context_window": "model_context_window",
    "truncation": "tool_output_token_limit",
    "reasoning": "model_supports_reasoning_summaries",
    "default_effort": "model_reasoning_effort",
    "default_summary": "model_reasoning_summary",
    "verbosity": "model_verbosity",
}
"""The settings that override properties."""

_LEFT_OUT = ("slug", "known", "base_instructions")


class Known(Value):
    """A model and the source of its properties.

    Attributes:
        source: The catalogue's name, ``built in``, or ``fallback`` if the model is unknown.
    """

    model: ModelInfo
    source: str


class Property(Value):
    """One property of a model.

    Attributes:
        value: The value that requests use, as plain data.
        source: Its source.
    """

    name: str
    value: Any
    source: str


def known_models(plugin: PluginContext, provider: ProviderInfo, names: Sequence[str] = ()) -> Iterator[Known]:
    """Yield the models that can be used at a provider. The first source that knows a model describes it.

    Built-in models are not available on servers of local models.

    Args:
        names: Names of further models. Unknown models are yielded with fallback properties.

    Raises:
        CodexError: A catalogue cannot be read, or a plugin failed.
    """
    told: set[str] = set()
    for label, catalogue in _catalogues(plugin):
        for model in asked_models(label, catalogue.models, provider):
            if model.slug not in told:
                told.add(model.slug)
                yield Known(model, catalogue.name)
    serving = None if provider.id in LOCAL else _serving(plugin, provider)
    for each in bundled_models():
        own = None if serving is None else asked_model(serving[0], serving[1].model, each.slug)
        if own is not None and own.slug not in told:
            told.add(own.slug)
            yield Known(own, "built in")
    for name in names:
        if name not in told:
            told.add(name)
            yield known_model(plugin, provider, name)


def known_model(plugin: PluginContext, provider: ProviderInfo, slug: str) -> Known:
    """Return what requests to a provider assume about a model.

    Raises:
        CodexError: A catalogue cannot be read, or a plugin failed.
    """
    for label, catalogue in _catalogues(plugin):
        model = asked_model(label, catalogue.model, slug, provider)
        if model is not None:
            return Known(model, catalogue.name)
    serving = _serving(plugin, provider)
    model = None if serving is None else asked_model(serving[0], serving[1].model, slug)
    return Known(fallback_model(slug), "fallback") if model is None else Known(model, "built in")


def properties(plugin: PluginContext, known: Known) -> Iterator[Property]:
    """Yield the properties of a model, with the overrides of the configuration."""
    for field in fields_of(ModelInfo):
        if field.name in _LEFT_OUT:
            continue
        value, source = getattr(known.model, field.name), known.source
        key = _SETTINGS.get(field.name)
        given = plugin.config.get(key) if key else None
        if key and given is not None and not (field.name == "reasoning" and not given):
            value, source = _overridden(field.name, given, known.model), _place(plugin, key)
        yield Property(field.name, _plain(value), source)


def _overridden(name: str, given: Any, model: ModelInfo) -> Any:
    if name == "truncation":
        unit = model.truncation[0]
        return unit, given * (_BYTES_PER_TOKEN if unit == "bytes" else 1)
    if name == "context_window":
        return min(given, model.max_context_window or given)
    return given


def _place(plugin: PluginContext, key: str) -> str:
    """Return the file or option that sets a setting."""
    path = next((layer.path for layer in reversed(plugin.layers) if key in layer.table), "configuration")
    return f"{key} in {path}"


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return {field.name: getattr(value, field.name) for field in fields_of(type(value))}
    return list(value) if isinstance(value, tuple) else value


def _catalogues(plugin: PluginContext) -> list[tuple[Label, ModelCatalogue]]:
    offers = plugin.offered(ModelCatalogue).items()  # type: ignore[type-abstract]
    return [(Label("model catalogue", name, offer.plugin), offer.item) for name, offer in offers]


def _serving(plugin: PluginContext, provider: ProviderInfo) -> tuple[Label, ModelProvider] | None:
    offers: Mapping[str, Any] = plugin.offered(ModelProvider)
    offer = offers.get(provider.wire_api)
    return None if offer is None else (Label("model provider", provider.id, offer.plugin), offer.item)
