"""The shared state of all threads of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.commands.confinement import Confinements
from codex_framework.commands.programs import ProgramFolder
from codex_framework.commands.protected_paths import ProtectedPaths, find_protected_paths
from codex_framework.commands.shells import user_shell
from codex_framework.config import Config
from codex_framework.config.permissions import named_permissions
from codex_framework.config.provider_table import DEFAULT_PROVIDER, provider_info
from codex_framework.config.settings import settings_from
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.roles.models import OpenModel, ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.contract.roles.threads import KernelContext
from codex_framework.contract.value import Value, field
from codex_framework.loader.registry import Registry
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.components import Components
from codex_framework.threads.environments import Environments
from codex_framework.threads.faults import Label
from codex_framework.threads.interceptor_table import InterceptorTable
from codex_framework.threads.models import Models
from codex_framework.threads.plugin_view import Services
from codex_framework.threads.prompt_context import FirstContexts
from codex_framework.threads.stalls import StallWatch
from codex_framework.threads.tool_table import ToolTables

if TYPE_CHECKING:
    from codex_framework.config.credentials import Credentials

__all__ = ["Host"]


class Host(Value, kw_only=True):
    """The shared state of all threads of a kernel.

    Attributes:
        config: The configuration of the kernel, or of one thread.
        deciding: The places that no command and no tool may write.
        kernel: The kernel's context for a plugin, by the plugin's name.
        stored: Reads a thread from the store. Raises ThreadError.
        forget: Removes a thread that has shut down.
        stalls: Names plugins that block the event loop.
        tool_tables: The tables of tools that threads share.
        first_contexts: The results of context sources for the first turns of threads.
    """

    registry: Registry
    interceptors: InterceptorTable
    config: Config
    codex_home: Path
    environ: Mapping[str, str]
    shell: str
    confinements: Confinements
    deciding: ProtectedPaths
    broadcast: Broadcast
    programs: ProgramFolder
    models: Models
    services: Services
    components: Components
    kernel: Callable[[str], KernelContext]
    stored: Callable[[str], StoredThread]
    forget: Callable[[str], object]
    stalls: StallWatch
    tool_tables: ToolTables = field(factory=ToolTables)
    first_contexts: FirstContexts = field(factory=FirstContexts)

    @classmethod
    def of(cls, registry: Registry, config: Config, environ: Mapping[str, str], **shared: Any) -> Host:
        """Return the host of a kernel, with the parts that depend on the registry.

        Args:
            shared: The other parts, by name.
        """
        wanted = config.get("framework.sandbox")
        named = wanted if isinstance(wanted, str) else None
        programs = ProgramFolder(config.codex_home, registry.programs)
        interceptors = InterceptorTable(registry.interceptors)
        return cls(
            registry=registry,
            interceptors=interceptors,
            config=config,
            codex_home=config.codex_home,
            environ=environ,
            shell=user_shell(),
            confinements=Confinements(registry.sandboxes, named, registry.owners),
            deciding=find_protected_paths(
                config.codex_home,
                environ=environ,
                projects=config.get("projects"),
                code=(*registry.code, *programs.private),
                protected=registry.protected_paths,
            ),
            programs=programs,
            models=Models(registry, interceptors.client, config, environ),
            **shared,
        )

    @cached_property
    def settings(self) -> Settings:
        """The settings that the configuration asks for. Raises ConfigError."""
        # Without any plugin for models a thread starts all the same, and its turns say what is missing.
        offered = self.registry.builtin_providers or {DEFAULT_PROVIDER: ProviderInfo(id=DEFAULT_PROVIDER)}
        return settings_from(self.config, offered)

    @cached_property
    def environments(self) -> Environments:
        """The environments that can be selected."""
        return Environments(self.registry.environment_sources)

    def credentials(self, provider: ProviderInfo) -> Credentials:
        """Return the variables and secrets that are kept from commands, including those of a thread's provider."""
        from codex_framework.config.credentials import credentials  # not before the first command

        return credentials(self.config.tables, (provider, *self.registry.builtin_providers.values()))

    def objects_to_close(self) -> tuple[list[tuple[Label, Any]], list[tuple[Label, Any]]]:
        """Return the objects to close at the end, with names: model clients, network proxies and login shells, then sandboxes."""
        owners = self.registry.owners
        proxies = (
            (Label("network proxy", name, owners.get(("network_proxies", name), "")), proxy)
            for name, proxy in self.registry.network_proxies.items()
        )
        shells, sandboxes = self.confinements.closing()
        return [*self.models.take_clients(), *proxies, *shells], list(sandboxes)

    def named_provider(self, name: str | None) -> ProviderInfo:
        """Return a provider by its id, by default the one of the configuration. Raises ConfigError."""
        return provider_info(self.config, self.registry.builtin_providers, name)

    def open_model(self, model: str, provider: str | None = None) -> OpenModel:
        """Return a model with the client of its provider. Raises CodexError."""
        settings = self.settings.evolve(model=model, provider=self.named_provider(provider))
        return OpenModel(self.models.info(settings), settings.provider, self.models.client(settings.provider))

    def named_permissions(self, name: str) -> Permissions:
        """Return the permissions of a profile. Raises ConfigError."""
        return named_permissions(self.config, name)

    def with_config(self, config: Config) -> Host:
        """Return the host for a thread with its own configuration."""
        return self.evolve(config=config, models=self.models.with_config(config))
