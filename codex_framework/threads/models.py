"""The models of threads: their clients, properties and instructions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from codex_framework.config import Config
from codex_framework.config.settings import fallback_model
from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.models import ModelClient, ModelInfo, ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.plugins.registry import Registry
from codex_framework.threads.instructions import base_instructions

__all__ = ["Models"]


class Models:
    """The model side of a kernel, shared by its threads."""

    def __init__(self, registry: Registry, config: Config, environ: Mapping[str, str]) -> None:
        self._registry = registry
        self._config = config
        self._environ = environ
        self._clients: list[tuple[ProviderInfo, ModelClient]] = []

    def configured(self, config: Config) -> Models:
        """Return the models of another configuration, with the same clients."""
        models = Models(self._registry, config, self._environ)
        models._clients = self._clients
        return models

    def client(self, provider: ProviderInfo) -> ModelClient:
        """Return the client of a provider, created at first use and shared by all threads. Interceptors may wrap it.

        Raises:
            CodexError: No plugin serves the provider's wire.
        """
        for known, client in self._clients:
            if known == provider:
                return client
        plugin = self._registry.providers.get(provider.wire_api)
        if plugin is None:
            served = ", ".join(sorted(self._registry.providers)) or "none: no plugin offers one"
            raise CodexError(
                f"no plugin serves wire_api {provider.wire_api!r} of model provider {provider.id!r}",
                slug="no-provider",
                hint=f"Set wire_api to one that is served ({served}), or install a plugin that serves it."
                " `codex-framework plugins` shows what is loaded.",
            )
        client = plugin.open(provider, self._environ)
        for guard in self._registry.interceptors.client:
            client = guard.call(client, provider)
        self._clients.append((provider, client))
        return client

    def info(self, settings: Settings) -> ModelInfo:
        """Return the properties of the settings' model, overridden by the configuration."""
        plugin = self._registry.providers.get(settings.provider.wire_api)
        info = plugin.model(settings.model) if plugin is not None else None
        return settings.with_overrides(info or fallback_model(settings.model))

    def last(self, stored: StoredThread, settings: Settings) -> ModelInfo | None:
        """Return the properties of the model that a stored thread used last. None means that the record does not name it."""
        slug = (stored.last_turn_context or {}).get("model")
        return self.info(settings.evolve(model=slug)) if isinstance(slug, str) and slug else None

    def instructions(self, model: ModelInfo) -> str:
        """Return the base instructions for a model. Raises ConfigError."""
        return base_instructions(self._config, model)

    async def aclose(self) -> None:
        """Close all clients, then raise the first error."""
        clients = list(self._clients)
        self._clients.clear()
        results = await asyncio.gather(*(client.aclose() for _, client in clients), return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error
