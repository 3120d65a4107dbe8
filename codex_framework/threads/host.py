"""What all threads of a kernel share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from codex_framework.commands.confinement import Confinements
from codex_framework.commands.programs import ProgramFolder
from codex_framework.config import Config
from codex_framework.config.permissions import named_permissions
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.contract.roles.threads import KernelContext
from codex_framework.contract.value import Value
from codex_framework.plugins.registry import Registry
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.components import Components
from codex_framework.threads.models import Models
from codex_framework.threads.services import Services

__all__ = ["Host"]


class Host(Value, kw_only=True):
    """What all threads of a kernel share.

    Attributes:
        config: The configuration of the kernel, or of one thread.
        kernel: The kernel as a plugin has it, by the plugin's name.
        stored: Reads a thread back from the store. Raises ThreadError.
        forget: Drops a thread that has shut down.
    """

    registry: Registry
    config: Config
    codex_home: Path
    environ: Mapping[str, str]
    shell: str
    confinements: Confinements
    broadcast: Broadcast
    programs: ProgramFolder
    models: Models
    services: Services
    components: Components
    kernel: Callable[[str], KernelContext]
    stored: Callable[[str], StoredThread]
    forget: Callable[[str], object]

    def named_permissions(self, name: str) -> Permissions:
        """Return the permissions of a profile. Raises ConfigError."""
        return named_permissions(self.config, name)

    def configured(self, config: Config) -> Host:
        """Return what a thread with a configuration of its own has."""
        return self.evolve(config=config, models=self.models.configured(config))
