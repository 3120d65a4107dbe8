"""The memory mode of a thread: whether later sessions may learn from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Component, Interceptor, OpHandler, PluginContext, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_memory_mode.ops import SetThreadMemoryMode, memory_mode
else:
    __getattr__ = lazy_exports(__name__, {"ops": "SetThreadMemoryMode memory_mode"})

__all__ = [
    "SetThreadMemoryMode",
    "codex_components",
    "codex_config_keys",
    "codex_interceptors",
    "codex_ops",
    "memory_mode",
]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``set_thread_memory_mode``."""
    from codex_plugin_memory_mode.ops import MemoryModeHandler

    return [MemoryModeHandler()]


@hookimpl
def codex_config_keys() -> Iterable[str]:
    """Claim ``memories``."""
    return ["memories"]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that sets the mode of threads, if ``[memories]`` is configured."""
    if "memories" not in plugin.config:
        return []
    from codex_plugin_memory_mode.external import MemoryModes
    from codex_plugin_memory_mode.settings import memory_settings

    settings = memory_settings(plugin.config, plugin.layers)
    return [] if settings.learns_from_all else [MemoryModes(settings)]


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer the interceptor that marks threads with external context, if ``memories.disable_on_external_context`` is true."""
    if "memories" not in plugin.config:
        return []
    from codex_plugin_memory_mode.external import ExternalContext
    from codex_plugin_memory_mode.settings import memory_settings

    return [ExternalContext()] if memory_settings(plugin.config, plugin.layers).marks_external else []
