"""The provider that the configuration selects."""

from __future__ import annotations

from codex_framework import ModelProvider, PluginContext, ProviderInfo
from codex_framework.contract.value import fields_of

__all__ = ["LOCAL", "selected_provider"]

LOCAL = ("ollama", "lmstudio")
"""Providers whose servers run on the user's machine, with their own models."""

_FIELDS = frozenset(field.name for field in fields_of(ProviderInfo)) - {"id", "options"}


def selected_provider(plugin: PluginContext, name: str | None = None) -> ProviderInfo | None:
    """Return the provider that ``model_provider`` or ``name`` names, or None if it does not exist.

    Raises:
        ConfigError: The environment names no usable address of a server of local models.
    """
    name = str(name or plugin.config.get("model_provider", "openai"))
    offers = plugin.offered(ModelProvider).values()  # type: ignore[type-abstract]
    known = {key: info for offer in offers for key, info in offer.item.builtin.items()}
    table = plugin.config.get("model_providers", {}).get(name)
    if table is None:
        info = known.get(name)
        if info is not None and name in LOCAL:
            from codex_lib_model_client.local_servers import local_url

            return info.evolve(base_url=local_url(info.base_url or "", plugin.environ))
        url = plugin.config.get("openai_base_url")
        return info.evolve(base_url=url) if info is not None and url and name == "openai" else info
    fields = {key: value for key, value in table.items() if key in _FIELDS}
    options = {key: value for key, value in table.items() if key not in _FIELDS}
    return ProviderInfo(**{"id": name, "name": name, **fields}, options=options)
