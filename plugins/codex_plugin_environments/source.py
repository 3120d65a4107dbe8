"""The configured environments, and the component that connects to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from codex_framework import (
    CodexError,
    Component,
    ConfigError,
    EnvironmentSource,
    KernelContext,
    ThreadComponent,
    ThreadContext,
)
from codex_framework.toolkit.environments import environments_of
from codex_plugin_environments.configuration import Configuration, configured
from codex_plugin_environments.environment import RemoteEnvironment

__all__ = ["Connections", "ExecServers"]


class ExecServers(EnvironmentSource):
    """The environments of a configuration.

    Args:
        configuration: The user's configuration.
        environ: The environment of this process.

    Attributes:
        places: The configured servers, one for each environment.
        error: Why the configuration cannot be used, if so.
    """

    name = "exec-servers"

    def __init__(
        self, configuration: Configuration, environ: Mapping[str, str], error: ConfigError | None = None
    ) -> None:
        self.error = error
        self.places = configuration.places
        self.servers = tuple(RemoteEnvironment(place, environ) for place in configuration.places)
        self.environments = self.servers
        self.default = configuration.default
        self.has_local = configuration.has_local
        self.patience_s = max(
            (place.connect_timeout_s + place.initialize_timeout_s for place in configuration.places), default=0.0
        )

    @classmethod
    def of(cls, path: Path, environ: Mapping[str, str]) -> ExecServers:
        """Return the environments of the user's file or variable.

        If it is invalid, no environment is available, not even this machine.
        """
        try:
            return cls(configured(path, environ), environ)
        except ConfigError as error:
            return cls(Configuration(has_local=False), environ, error)


class Connections(Component):
    """Connects to the environments that threads use by default, and disconnects from all."""

    name = "environments"
    required = True
    close_timeout_s = 15.0

    def __init__(self, servers: ExecServers) -> None:
        self._servers = servers
        self.start_timeout_s = servers.patience_s + 5.0

    async def start(self, kernel: KernelContext) -> None:  # noqa: ARG002  # the interface
        """Connect. An environment that cannot be reached has a fault. Without a usable configuration, raise ConfigError."""
        if self._servers.error is not None:
            raise self._servers.error
        wanted = [each for each in self._servers.servers if each.id in (self._servers.default or ())]
        await asyncio.gather(*(each.connect() for each in wanted), return_exceptions=True)

    def for_thread(self, thread: ThreadContext) -> _Part:
        """Return the part that tells the thread's clients what cannot be reached."""
        return _Part(self._servers, thread)

    async def aclose(self) -> None:
        """End all processes, and disconnect."""
        await asyncio.gather(*(each.aclose() for each in self._servers.servers), return_exceptions=True)


class _Part(ThreadComponent):
    def __init__(self, servers: ExecServers, thread: ThreadContext) -> None:
        self._servers = servers
        self._thread = thread

    async def start(self) -> None:
        """Raise CodexError, which becomes a warning, if environments of the thread have faults."""
        chosen = {each.environment_id for each in environments_of(self._thread.settings)}
        faults = [f"`{each.id}`: {each.fault}" for each in self._servers.servers if each.fault and each.id in chosen]
        if faults:
            raise CodexError(
                f"environments cannot be used: {'; '.join(faults)}",
                slug="environment",
                hint="Start their servers, or fix environments.toml. They are tried again when they are needed.",
            )
