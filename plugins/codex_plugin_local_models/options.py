"""``--oss`` and ``--local-provider``: which server, which model, and whether both are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import ConfigError, ExecOption, PluginContext
from codex_framework.contract.roles.exec_options import OptionUse
from codex_lib_model_client.local_servers import local_url

__all__ = ["options"]

_PROVIDERS = {
    "lmstudio": ("http://localhost:1234/v1", "openai/gpt-oss-20b"),
    "ollama": ("http://localhost:11434/v1", "gpt-oss:20b"),
}
"""The address and the default model of each provider (Codex's)."""


def options(plugin: PluginContext) -> Sequence[ExecOption]:
    """Return the options."""

    def implies(use: OptionUse) -> Mapping[str, Any]:
        provider = _provider(plugin, use)
        if provider not in _PROVIDERS:  # a server of the user's own, of which nothing is known but its table
            return {"model_provider": provider}
        url, default = _PROVIDERS[provider]
        model = str(use.given.get("model") or default)
        url = local_url(url, plugin.environ)
        if provider == "ollama":
            from codex_plugin_local_models.ollama import prepare
        else:
            from codex_plugin_local_models.lmstudio import prepare

        prepare(url, model, plugin.environ)
        return {"model_provider": provider, "model": model}

    return (
        ExecOption(
            name="oss",
            setting="oss",
            text="Use a local provider for open models (see --local-provider).",
            implies=implies,
        ),
        ExecOption(
            name="local-provider",
            setting="provider",
            text="The local provider for --oss.",
            metavar="PROVIDER",
            choices=tuple(_PROVIDERS),
        ),
    )


def _provider(plugin: PluginContext, use: OptionUse) -> str:
    given = use.given.get("model_provider")
    provider = _named_provider(plugin, use) or use.config.get("oss_provider")
    if given is not None and given != provider:
        raise ConfigError(
            f"--oss uses a local provider, and the command line sets model_provider to {given!r}",
            path="--oss",
            slug="oss",
            hint="Leave out one of them.",
        )
    if provider in _PROVIDERS or (isinstance(provider, str) and provider in (use.config.get("model_providers") or {})):
        return str(provider)
    raise ConfigError(
        "--oss requires a provider" if provider is None else f"{provider!r} is not a provider for --oss",
        path="--oss",
        slug="oss",
        hint="Add --local-provider ollama or --local-provider lmstudio, or set oss_provider in config.toml.",
    )


def _named_provider(plugin: PluginContext, use: OptionUse) -> Any:
    """Return the provider that the command line or the user's settings name. A project's do not count: they would run ``lms``."""
    own = [layer.table for layer in plugin.layers if layer.name != "project"]
    for table in (use.given, *reversed(own)):
        found = table
        for name in ("framework", "plugins", "local_models", "provider"):
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
        if found:
            return found
    return None
