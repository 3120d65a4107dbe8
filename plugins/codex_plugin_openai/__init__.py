"""A model provider for servers with the Responses API: OpenAI and compatible servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import Component, ModelProvider, PluginContext, Tool, hookimpl

if TYPE_CHECKING:
    from codex_plugin_openai.shared_access import SharedAccess

_made: WeakKeyDictionary[PluginContext, SharedAccess] = WeakKeyDictionary()
"""The credentials of the providers of each kernel."""


def _shared_access(plugin: PluginContext) -> SharedAccess:
    if plugin not in _made:
        from codex_plugin_openai.shared_access import SharedAccess

        _made[plugin] = SharedAccess(plugin.config)
    return _made[plugin]


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``responses`` provider."""
    from codex_plugin_openai.provider import ResponsesProvider

    return [ResponsesProvider(plugin.config, _shared_access(plugin))]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer what opens connections before the first request, if a provider has WebSockets, and what draws images for a login."""
    if _may_have_sockets(plugin.config):
        from codex_plugin_openai.prewarming import Prewarming

        yield Prewarming()
    if _may_draw(plugin):
        from codex_plugin_openai.imagegen_component import Images

        yield Images(_shared_access(plugin), plugin.environ, plugin.codex_home)


@hookimpl
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:
    """Offer ``web_search`` and ``image_generation``, which servers with the Responses API run themselves."""
    from codex_plugin_openai.image_generation import ImageGeneration
    from codex_plugin_openai.web_search import WebSearch

    return [WebSearch(), ImageGeneration(plugin.codex_home)]


def _may_have_sockets(config: Mapping[str, Any]) -> bool:
    """Return whether some thread may have a provider with WebSockets."""
    features = config.get("features")
    is_off = isinstance(features, Mapping) and features.get("responses_websockets") is False
    if config.get("model_provider", "openai") == "openai" and not is_off:
        return True
    tables = config.get("model_providers") or {}
    return any(isinstance(table, Mapping) and table.get("supports_websockets") is True for table in tables.values())


def _may_draw(plugin: PluginContext) -> bool:
    """Return whether there may be a login with ChatGPT, as far as this can be said without reading it."""
    if plugin.environ.get("CODEX_API_KEY"):
        return False
    stored = plugin.config.get("cli_auth_credentials_store", "file")
    return (
        bool(plugin.environ.get("CODEX_ACCESS_TOKEN"))
        or stored in ("keyring", "auto")
        or os.path.exists(plugin.codex_home / "auth.json")  # noqa: PTH110  # at every start
    )
