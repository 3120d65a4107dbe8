"""A model provider without a model, and a recorder for its cassettes.

The provider plays a script or a recorded cassette: offline and deterministic. The recorder writes the cassette of any provider
whose table has ``record = "path"``.
"""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Interceptor, ModelProvider, PluginContext, hookimpl


@hookimpl
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:
    """Offer the ``replay`` provider."""
    from codex_plugin_replay.provider import ReplayProvider

    return [ReplayProvider(plugin.config.get("model_providers"), plugin.environ)]


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer the recorder."""
    from codex_plugin_replay.recorder import Recorder

    return [Recorder(plugin.environ)]
