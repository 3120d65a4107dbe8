"""What all threads of a kernel share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from codex_framework.commands.confinement import Confinements
from codex_framework.commands.programs import ProgramFolder
from codex_framework.config import Config
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.stores import StoredThread
from codex_framework.contract.roles.threads import KernelContext, ThreadClient
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
        config: The configuration of the kernel.
        kernel: The kernel as a plugin has it, by the plugin's name.
        spawn: Starts a child: of which conversation, the agent, and how many turns of history it begins with.
        stored: Reads a thread back from the store. Raises ThreadError.
        forget: Drops a thread that has shut down.
        named_permissions: The permissions of a profile by name. Raises ConfigError.
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
    spawn: Callable[[Any, Agent[Any], int | None], Awaitable[ThreadClient]]
    stored: Callable[[str], StoredThread]
    forget: Callable[[str], object]
    named_permissions: Callable[[str], Permissions]
