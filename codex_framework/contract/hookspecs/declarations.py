"""The hooks by which a plugin declares its settings, requirements, hooks and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.roles.plugins import PluginContext

__all__ = [
    "codex_config_keys",
    "codex_events",
    "codex_protected_paths",
    "codex_requires",
    "codex_roles",
    "codex_settings",
]


@hookspec
def codex_settings(plugin: PluginContext) -> type[Any]:  # type: ignore[empty-body]
    """Declare the class of the plugin's settings: a subclass of ``Value`` or another attrs class.

    The table ``[framework.plugins.<name>]`` is read into it when the plugin is loaded: ``plugin.settings(Settings)`` returns the
    value for the kernel, and ``thread.plugin_settings(Settings)`` the value for a thread. An unknown key, a value of the wrong
    type or a missing key is reported with file, line and key, and the plugin is not loaded. If the plugin offers an object that
    decides about commands (a sandbox, network proxy, command policy, reviewer or interceptor), ``Kernel.create`` raises the
    error.

    Example:
        ```python
        from codex_framework import PluginContext, Value, hookimpl, tool


        class Settings(Value, kw_only=True):
            \"\"\"The table [framework.plugins.greeter].\"\"\"

            greeting: str = "Hello"


        @hookimpl
        def codex_settings():
            return Settings


        @hookimpl
        def codex_tools(plugin: PluginContext):
            greeting = plugin.settings(Settings).greeting

            @tool
            async def greet(name: str) -> str:
                \"\"\"Greet somebody.\"\"\"
                return f"{greeting}, {name}!"

            return [greet]
        ```
    """


@hookspec
def codex_requires(plugin: PluginContext) -> Iterable[str]:  # type: ignore[empty-body]
    """Name the plugins that this one requires, each with the supported versions: ``"execpolicy>=0.1"``.

    Deprecated: name the distribution in the dependencies of yours, and the services that you use in ``Component.requires``.

    The version of a plugin is the version of its distribution; for a one-file plugin it is ``__version__``. Environment markers
    are allowed (``"seatbelt; sys_platform == 'darwin'"``). If a required plugin is missing, disabled, broken or too old, or if
    plugins require each other, this plugin is reported and not loaded, and neither are the plugins that require it. The hooks
    of a plugin are called after the hooks of the plugins that it requires.

    Example:
        ```python
        from codex_framework import hookimpl, tool


        @hookimpl
        def codex_requires():
            return ["execpolicy>=0.1"]


        @hookimpl
        def codex_tools():
            @tool
            async def careful() -> str:
                \"\"\"Say whether commands are checked.\"\"\"
                return "They are."

            return [careful]
        ```
    """


@hookspec
def codex_roles(plugin: PluginContext) -> Mapping[str, type[Any]]:  # type: ignore[empty-body]
    """Declare hooks of the plugin's own: the name of each hook, and the class or protocol of the objects that it collects.

    Deprecated: offer a service with ``Component.provides``, to which other plugins add their objects.

    Other plugins implement such a hook like any other: marked with ``hookimpl``, with one parameter ``plugin`` or none, and
    returning an iterable of objects. ``plugin.offers(Role)`` returns the objects, in the order of the plugins. They are collected
    once, after all plugins have been imported and before the framework's own offering hooks (such as ``codex_tools``) are called.
    Call ``plugin.offers`` in one of these hooks or later. An object that does not fulfil the role is ignored and reported.

    Example:
        ```python
        from typing import Protocol

        from codex_framework import PluginContext, hookimpl, tool


        class Rhyme(Protocol):
            name: str

            def rhymes(self, one: str, other: str) -> bool: ...


        @hookimpl
        def codex_roles():
            return {"poetry_rhymes": Rhyme}


        class Ending:
            name = "ending"

            def rhymes(self, one, other):
                return one[-2:] == other[-2:]


        @hookimpl
        def poetry_rhymes():
            return [Ending()]


        @hookimpl
        def codex_tools(plugin: PluginContext):
            @tool
            async def rhyme(one: str, other: str) -> bool:
                \"\"\"Say whether two words rhyme.\"\"\"
                return any(offer.rhymes(one, other) for offer in plugin.offers(Rhyme))

            return [rhyme]
        ```
    """


@hookspec
def codex_config_keys(plugin: PluginContext) -> Iterable[str]:  # type: ignore[empty-body]
    """Name the settings of Codex that take effect through this plugin: ``["notify"]``.

    A name covers everything below it. A setting that no plugin names has no effect and causes a warning; unclaimed hooks that
    could refuse something are an error. An unknown name is reported, and the plugin is not loaded.

    Example:
        ```python
        import subprocess

        from codex_framework import Notifier, PluginContext, hookimpl


        class Program(Notifier):
            name = "program"

            def __init__(self, argv):
                self.argv = argv

            def notify(self, notification):
                subprocess.run([*self.argv, notification.title], check=False)


        @hookimpl
        def codex_config_keys():
            return ["notify"]


        @hookimpl
        def codex_notifiers(plugin: PluginContext):
            argv = plugin.config.get("notify")
            return [Program(argv)] if argv else []
        ```
    """


@hookspec
def codex_events(plugin: PluginContext) -> Iterable[type[EventMsg]]:  # type: ignore[empty-body]
    """Declare the plugin's own event classes, so that stored events are read back as values of these classes.

    ``type`` is the tag on the wire. It must differ from the tags of all other events. ``exec --json`` prints such an event as
    ``{"type": "plugin.event", "plugin": ..., "event": {...}}``.

    Example:
        ```python
        from codex_framework import EventMsg, ToolContext, hookimpl, tool


        class Milestone(EventMsg):
            type = "milestone"
            kept = True
            name: str


        @hookimpl
        def codex_events():
            return [Milestone]


        @hookimpl
        def codex_tools():
            @tool
            async def reach(name: str, context: ToolContext) -> str:
                \"\"\"Note that a milestone has been reached.\"\"\"
                context.emit(Milestone(name))
                return "Noted."

            return [reach]
        ```
    """


@hookspec
def codex_protected_paths(plugin: PluginContext) -> Iterable[str]:  # type: ignore[empty-body]
    """Name files and folders that commands and tools can never write, because they decide what is permitted.

    These are, for example, programs that the plugin runs without a sandbox. They stay read-only whatever a profile, a workspace
    or an approval makes writable; only ``danger-full-access`` includes them. Symlinks to them stay read-only too. A path that
    does not exist cannot be created. A relative path is protected in the working folder of each turn, and in the root of its
    project. ``~`` is not expanded.

    Example:
        ```python
        from codex_framework import PluginContext, hookimpl


        @hookimpl
        def codex_protected_paths(plugin: PluginContext):
            return ["tools/release.sh", str(plugin.codex_home / "release.toml")]
        ```
    """
