"""Rate limits that all processes share: a token bucket for each provider and key. A server's Retry-After holds all of them.

Without a provider in the settings it offers nothing and imports nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import Interceptor, PluginContext, hookimpl

__all__ = ["codex_interceptors", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.rate_limits]``."""
    from codex_plugin_rate_limits.settings import Settings

    return Settings


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer what wraps the clients of providers, if a provider is limited."""
    if not (plugin.config.get("framework") or {}).get("plugins", {}).get(plugin.name):
        return []
    from codex_plugin_rate_limits.file_store import FileStore
    from codex_plugin_rate_limits.limiter import RateLimiter
    from codex_plugin_rate_limits.settings import Settings

    settings = plugin.settings(Settings)
    store = FileStore(plugin.codex_home / (settings.file or "rate_limits.sqlite"))
    return [RateLimiter(settings.providers, store, plugin.environ)] if settings.providers else []
