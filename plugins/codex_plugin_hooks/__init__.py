"""User hooks: the commands of ``hooks.json`` and ``[hooks]``, run at events of a session, which can refuse, change and add."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import (
    ApprovalReviewer,
    Component,
    EventMsg,
    Interceptor,
    OpHandler,
    PluginContext,
    hookimpl,
)

if TYPE_CHECKING:
    import click

    from codex_plugin_hooks.definitions import Definitions

__all__ = [
    "codex_approval_reviewers",
    "codex_commands",
    "codex_components",
    "codex_config_keys",
    "codex_events",
    "codex_interceptors",
    "codex_ops",
    "codex_protected_paths",
    "codex_settings",
]

_found: WeakKeyDictionary[PluginContext, Definitions | None] = WeakKeyDictionary()
"""The hooks of each kernel, read once."""


def _definitions(plugin: PluginContext) -> Definitions | None:
    """Return the hooks of a kernel's configuration, or None; then nothing more is imported."""
    features = plugin.config.get("features") or {}
    if (
        features.get("hooks") is False or features.get("codex_hooks") is False
    ):  # a constraint may say so after the first call
        return None
    if plugin not in _found:
        _found[plugin] = _read(plugin)
    return _found[plugin]


def _read(plugin: PluginContext) -> Definitions | None:
    sources = [
        layer
        for layer in plugin.layers
        if "hooks" in layer.table or (layer.folder is not None and (layer.folder / "hooks.json").exists())
    ]
    if not sources:
        return None
    from codex_plugin_hooks.definitions import definitions
    from codex_plugin_hooks.settings import Settings

    settings = plugin.settings(Settings)
    return definitions(sources, settings, plugin.environ, says_bypassed=settings.bypass_trust and _has_flag(plugin))


def _has_flag(plugin: PluginContext) -> bool:
    """Return whether the command line has ``--dangerously-bypass-hook-trust``."""
    flags = next((layer.table for layer in plugin.layers if layer.name == "flags"), {})
    return "bypass_trust" in flags.get("framework", {}).get("plugins", {}).get("hooks", {})


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.hooks]``."""
    from codex_plugin_hooks.settings import Settings

    return Settings


@hookimpl
def codex_config_keys() -> Iterable[str]:
    """Claim ``[hooks]``."""
    return ["hooks"]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``hook_started``, ``hook_completed`` and ``list_hooks_response``."""
    from codex_plugin_hooks.events import HookCompletedEvent, HookStartedEvent, ListHooksResponseEvent

    return [HookStartedEvent, HookCompletedEvent, ListHooksResponseEvent]


@hookimpl
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``list_hooks``."""
    from codex_plugin_hooks.ops import ListHooksHandler

    return [ListHooksHandler(plugin)]


@hookimpl
def codex_protected_paths(plugin: PluginContext) -> Iterable[str]:
    """Protect the scripts that hooks run: they run without a sandbox, and trust does not cover their content."""
    found = _definitions(plugin)
    if found is None:
        return []
    from codex_plugin_hooks.isolation import module_folders

    run = [each.scripts for each in found.known if each.enabled]
    return dict.fromkeys(path for each in run for path in (*each.paths, *module_folders(each)))


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that refuses to start with hooks that cannot be run."""
    found = _definitions(plugin)
    if found is None:
        return []
    from codex_plugin_hooks.component import HookComponent

    return [HookComponent(found)]


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer one interceptor for each kind of event that has a hook."""
    found = _definitions(plugin)
    if found is None or not found.handlers:
        return []
    from codex_plugin_hooks.interceptors import interceptors

    return interceptors(found)


@hookimpl
def codex_approval_reviewers(plugin: PluginContext) -> Iterable[ApprovalReviewer]:
    """Offer the reviewer that asks the hooks of ``PermissionRequest``."""
    found = _definitions(plugin)
    if found is None or not found.of("PermissionRequest"):
        return []
    from codex_plugin_hooks.reviewer import HookReviewer

    return [HookReviewer(found)]


@hookimpl
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:
    """Offer ``codex-framework hooks``."""
    from codex_framework import LazyCommand

    return [
        LazyCommand(
            "hooks",
            "List the configured hooks, trust them, and try them.",
            "codex_plugin_hooks.cli:hooks",
            obj=plugin,
            group="Configure",
        )
    ]
