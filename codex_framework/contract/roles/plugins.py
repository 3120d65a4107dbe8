"""A plugin, and what it gets when a kernel loads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

__all__ = ["Plugin", "PluginContext"]

T = TypeVar("T")


class PluginContext(Protocol):
    """One plugin in one kernel. Every hook gets it that has a parameter called ``plugin``."""

    @property
    def name(self) -> str:
        """The plugin's name: that of its entry point."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The kernel's configuration: all layers merged, as plain tables."""
        ...

    @property
    def codex_home(self) -> Path:
        """The folder with the user's configuration and sessions. It may not exist yet."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The kernel's environment variables. Read these, not ``os.environ``: a program may give a kernel others."""
        ...

    def settings(self, kind: type[T]) -> T:
        """Return the table ``[framework.plugins.<name>]`` as a value of an attrs class. It is read once for each class.

        Raises:
            ConfigError: A key is unknown, missing or mistyped. A plugin that lets it through is reported with file and line.
        """
        ...

    def offers(self, role: type[T]) -> Sequence[T]:
        """Return what plugins offer to this plugin's own hook for a role (see ``codex_roles``).

        Plugins that have failed since then are not among them, so ask again instead of keeping the result.

        Raises:
            PluginError: The plugin declares no hook that collects this role, or the offers are not collected yet.
        """
        ...


class Plugin:
    """A plugin as a class. An entry point that names a subclass gets one instance for each kernel.

    Hook implementations are methods, and share what they need through ``self``. A subclass with an ``__init__`` of its own takes
    the context and calls ``super().__init__(context)``.

    Attributes:
        context: What the plugin knows of the kernel that loads it.
    """

    def __init__(self, context: PluginContext) -> None:
        self.context = context
