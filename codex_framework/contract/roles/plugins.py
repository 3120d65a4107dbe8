"""Plugins and their contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from codex_framework.contract.value import Value, field

__all__ = ["ConfigLayer", "Offer", "Plugin", "PluginContext"]

T = TypeVar("T")


class Offer(NamedTuple, Generic[T]):
    """An object and the name of the plugin that offers it."""

    plugin: str
    item: T


class ConfigLayer(Value, kw_only=True):
    """One source of the configuration, for plugins that need more than the merged tables.

    Attributes:
        name: ``system``, ``user``, ``profile``, ``project``, ``override`` or ``flags``.
        path: The file, which may not exist; ``-c`` for overrides, and ``flags`` for flags.
        folder: The folder that may contain other files of this source. None if no such folder exists or another source has it.
        table: The settings of this source, without settings that it must not set.
    """

    name: str
    path: str
    folder: Path | None = None
    table: Mapping[str, Any] = field(factory=dict, repr=False)


class PluginContext(Protocol):
    """The context of one plugin in one kernel. Hooks with a parameter called ``plugin`` receive it."""

    @property
    def name(self) -> str:
        """The plugin's name, which is the name of its entry point."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The kernel's configuration: all layers merged, as plain tables."""
        ...

    @property
    def layers(self) -> Sequence[ConfigLayer]:
        """The sources of the configuration, from lowest to highest precedence.

        Folders of the user and of a trusted project are included even if they contain no ``config.toml``. Nothing of an untrusted
        project is included.
        """
        ...

    @property
    def codex_home(self) -> Path:
        """The folder with the user's configuration and sessions. It may not exist yet."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The kernel's environment variables. Use these instead of ``os.environ``, because a program can give a kernel others."""
        ...

    def settings(self, kind: type[T]) -> T:
        """Return the table ``[framework.plugins.<name>]`` as a value of an attrs class. The table is read once per class.

        Raises:
            ConfigError: A key is unknown, missing or of the wrong type. If the plugin does not catch this error, it is reported
                with file
                and line.
        """
        ...

    def offers(self, role: type[T]) -> Sequence[T]:
        """Return the objects that plugins offer to this plugin's own hook for a role (see ``codex_roles``).

        Offers of plugins that have failed since they were loaded are omitted. Call this again instead of keeping the result.

        Raises:
            PluginError: The plugin declares no hook that collects this role, or the offers are not collected yet.
        """
        ...

    def offered(self, role: type[T]) -> Mapping[str, Offer[T]]:
        """Return what all plugins offer for a role of the framework, such as ``Tool`` or ``ModelProvider``, by name.

        Aliases of tools are included. Tools of components belong to a thread and are not included. Call this when everything is
        loaded: in commands, components and calls.

        Raises:
            PluginError: The role has no named objects, or the plugins are not loaded yet.
        """
        ...


class Plugin:
    """A plugin as a class. An entry point that names a subclass gets one instance for each kernel.

    Hook implementations are methods and share state through ``self``. A subclass with its own ``__init__`` takes the context
    and calls ``super().__init__(context)``.

    Attributes:
        context: The plugin's context in the kernel that loads it.
    """

    def __init__(self, context: PluginContext) -> None:
        self.context = context
