"""The models of threads: their clients, properties and instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.config import Config
from codex_framework.contract.errors import CodexError, PluginError
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.roles.models import ModelClient, ModelInfo, ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.loader.registry import Registry
from codex_framework.threads.faults import Label, WrongValue, fact_of, kind_of
from codex_framework.threads.interceptor_table import Guard
from codex_framework.toolkit.files import Files, NotPermittedError
from codex_framework.toolkit.model_checks import asked_model, fallback_model

if TYPE_CHECKING:
    from codex_framework.config import Config

__all__ = ["Models", "base_instructions", "default_instructions"]


class Models:
    """The model side of a kernel, shared by its threads."""

    def __init__(
        self, registry: Registry, wrapping: Sequence[Guard], config: Config, environ: Mapping[str, str]
    ) -> None:
        self._registry = registry
        self._wrapping = wrapping
        self._config = config
        self._environ = environ
        self._clients: list[tuple[ProviderInfo, ModelClient]] = []

    def with_config(self, config: Config) -> Models:
        """Return the models of another configuration, with the same clients."""
        models = Models(self._registry, self._wrapping, config, self._environ)
        models._clients = self._clients
        return models

    def client(self, provider: ProviderInfo) -> ModelClient:
        """Return the client of a provider, created at first use and shared by all threads. Interceptors may wrap it.

        Raises:
            CodexError: No plugin serves the provider's wire.
        """
        for known, client in self._clients:
            if known is provider or known == provider:
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
        client = _open_client(self.label(provider), "open", plugin.open, provider, self._environ)
        for guard in self._wrapping:
            label = Label("interceptor", guard.name, guard.plugin)
            client = _open_client(label, "client", guard.call, client, provider)
        self._clients.append((provider, client))
        return client

    def use(self, provider: ProviderInfo, client: ModelClient) -> None:
        """Use a client for a provider instead of opening one."""
        self._clients.insert(0, (provider, client))

    def label(self, provider: ProviderInfo) -> Label:
        """Return the name of a provider and of its plugin, for messages."""
        plugin = self._registry.owners.get(("providers", provider.wire_api), "")
        return Label("model provider", provider.id, plugin)

    def info(self, settings: Settings) -> ModelInfo:
        """Return the properties of the settings' model, overridden by the configuration.

        Raises:
            PluginError: A catalogue or the provider failed.
        """
        return settings.with_overrides(self._find_model(settings) or fallback_model(settings.model))

    def _find_model(self, settings: Settings) -> ModelInfo | None:
        """Return the properties from the first catalogue that knows the model, or else from its provider. Raises PluginError."""
        slug, provider = settings.model, settings.provider
        for name, catalogue in self._registry.catalogues.items():
            owner = self._registry.owners.get(("catalogues", name), "")
            info = asked_model(Label("model catalogue", name, owner), catalogue.model, slug, provider)
            if info is not None:
                return info
        plugin = self._registry.providers.get(provider.wire_api)
        return None if plugin is None else asked_model(self.label(provider), plugin.model, slug)

    def last_model(self, stored: StoredThread, settings: Settings) -> ModelInfo | None:
        """Return the properties of the model that a stored thread used last, or None if the record does not name it."""
        slug = (stored.last_turn_context or {}).get("model")
        return self.info(settings.evolve(model=slug)) if isinstance(slug, str) and slug else None

    def instructions(self, model: ModelInfo) -> str:
        """Return the base instructions for a model. Raises ConfigError."""
        return base_instructions(self._config, model)

    def take_clients(self) -> list[tuple[Label, ModelClient]]:
        """Return the clients to close, with their names, and forget them."""
        clients = [(self.label(provider), client) for provider, client in self._clients]
        self._clients.clear()
        return clients


def _open_client(label: Label, method: str, call: Callable[..., Any], *arguments: object) -> ModelClient:
    """Call a method that returns a client, and check the client.

    Raises:
        CodexError: The method raised it.
        PluginError: It failed in any other way.
    """
    try:
        client: ModelClient = call(*arguments)
        for member in ("stream", "aclose"):
            if not callable(getattr(client, member, None)):
                hint = "Return an object with `stream(request)` and `async def aclose()`."
                raise WrongValue(f"it returned {kind_of(client)}, which has no {member}()", call, hint=hint)
    except CodexError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        raise _error(label, method, error, call) from error
    return client


def _error(label: Label, method: str, error: BaseException, call: object) -> PluginError:
    return PluginError(label.plugin, f"{label}: {method}() failed: {fact_of(error, call)}", hint=label.advice(error))


_FILE_KEYS = ("model_instructions_file", "experimental_instructions_file")
_PERSONALITY = "{{ personality }}"


def base_instructions(config: Config, model: ModelInfo) -> str:
    """Return the base instructions of a new thread.

    The first of these that is set: the file named by ``model_instructions_file`` (older name:
    ``experimental_instructions_file``), the text ``base_instructions``, the model's own, and :func:`default_instructions`.

    Raises:
        ConfigError: The named file cannot be read, is not UTF-8 or is empty.
    """
    for key in _FILE_KEYS:
        path = config.get(key)
        if path:
            return _from_file(config, key, str(path))
    text = config.get("base_instructions")
    if isinstance(text, str) and text.strip():
        return text
    if model.base_instructions:
        return model.base_instructions.replace(_PERSONALITY, "").strip()
    return default_instructions()


@cache
def default_instructions() -> str:
    """Return the instructions for a model without its own: ``prompts/base.md``."""
    return Path(__file__).with_name("prompts").joinpath("base.md").read_text(encoding="utf-8").strip()


def _from_file(config: Config, key: str, path: str) -> str:
    file = config.codex_home / home_expanded(path)
    hint = f"Fix the file, or remove {key} from the configuration."
    try:
        text = Files().read(str(file)).decode().replace("\r\n", "\n").strip()
    except NotPermittedError as error:
        raise config.error(key, f"the instructions in {file} may not be read", hint=hint) from error
    except OSError as error:
        raise config.error(
            key, f"cannot read instructions from {file}: {error.strerror or error}", hint=hint
        ) from error
    except UnicodeDecodeError as error:
        raise config.error(key, f"the instructions in {file} are not UTF-8 (byte {error.start})", hint=hint) from error
    if not text:
        raise config.error(key, f"the instructions file {file} is empty", hint=hint)
    return text
