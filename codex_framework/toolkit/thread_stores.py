"""The configured thread store, for plugins that read stored sessions."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.stores import ThreadStore

__all__ = ["configured_store"]

_DEFAULT = "rollout"
"""The store that the kernel uses if the configuration names none."""


def configured_store(plugin: PluginContext) -> tuple[str, ThreadStore | None]:
    """Return the name of the store in ``[framework] thread_store``, and the store. None if no plugin offers it."""
    framework = plugin.config.get("framework")
    wanted = framework.get("thread_store") if isinstance(framework, Mapping) else None
    name = str(wanted or _DEFAULT)
    offer = plugin.offered(ThreadStore).get(name)  # type: ignore[type-abstract]
    return name, None if offer is None else offer.item
