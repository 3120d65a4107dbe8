"""The registry: everything that plugins offer, checked and by name. Made once when a kernel is created; it never changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from codex_framework import hookspecs
from codex_framework.plugins.collection import Loaded, PluginSettings, collect
from codex_framework.plugins.discovery import EntryPointLike, discover, source_of
from codex_framework.plugins.offers import ROLES, Offer, Offers
from codex_framework.plugins.registration import RegisteredTool
from codex_framework.plugins.report import PluginReport
from codex_framework.roles.context import ContextSource
from codex_framework.roles.deciders import ApprovalReviewer, CommandPolicy, Interceptor
from codex_framework.roles.networks import NetworkProxy
from codex_framework.roles.observers import Notifier, Observer, Telemetry
from codex_framework.roles.providers import ModelProvider, ProviderInfo
from codex_framework.roles.sandboxes import Sandbox
from codex_framework.roles.stores import ThreadStore

if TYPE_CHECKING:
    import click

__all__ = ["CommandTable", "Offer", "RegisteredTool", "Registry", "load_registry"]

_COMMANDS = "codex_commands"


class CommandTable(NamedTuple):
    """Subcommands that plugins offer, by name, and the reports of all plugins with these commands accounted for."""

    commands: Mapping[str, Offer[click.Command]]
    reports: tuple[PluginReport, ...]


@attrs.frozen(kw_only=True, slots=False)
class Registry:
    """What plugins offer. Without any plugin all of it is empty, and that is a registry too.

    Attributes:
        tools: By name, in a stable order: that of the plugins, and in a plugin as it offers them.
        tools_by_call: By name and by alias: what a call of the model finds.
        providers: By ``wire_api`` word.
        builtin_providers: Provider ids that need no table in config, of all providers.
        observers, notifiers, telemetry: With the plugin's name, which is told when they misbehave.
        interceptors: By their ``order``.
        programs: Commands for the ``PATH`` of what the model runs: name to the argv it stands for.
        owners: ``(role, name)`` to the name of the plugin.
        reports: What became of each plugin, in order of precedence.
    """

    tools: Mapping[str, RegisteredTool] = attrs.field(factory=dict)
    tools_by_call: Mapping[str, RegisteredTool] = attrs.field(factory=dict)
    providers: Mapping[str, ModelProvider] = attrs.field(factory=dict)
    builtin_providers: Mapping[str, ProviderInfo] = attrs.field(factory=dict)
    sandboxes: Mapping[str, Sandbox] = attrs.field(factory=dict)
    network_proxies: Mapping[str, NetworkProxy] = attrs.field(factory=dict)
    thread_stores: Mapping[str, ThreadStore] = attrs.field(factory=dict)
    notifiers: tuple[Offer[Notifier], ...] = ()
    telemetry: tuple[Offer[Telemetry], ...] = ()
    observers: tuple[Offer[Observer], ...] = ()
    context_sources: tuple[ContextSource, ...] = ()
    command_policies: tuple[CommandPolicy, ...] = ()
    reviewers: tuple[ApprovalReviewer, ...] = ()
    interceptors: tuple[Interceptor, ...] = ()
    programs: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    owners: Mapping[tuple[str, str], str] = attrs.field(factory=dict, repr=False)
    reports: tuple[PluginReport, ...] = ()
    _plugins: tuple[Loaded, ...] = attrs.field(default=(), repr=False, eq=False, alias="plugins")

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with plugins, as sentences for a person. A fact that concerns two plugins is told once."""
        found: dict[str, str] = {}
        for report in self.reports:
            for fact, sentence in report.warnings.items():
                found.setdefault(fact, sentence)
        return tuple(found.values())

    @cached_property
    def command_table(self) -> CommandTable:
        """Subcommands of the CLI. Their hooks are called at first use: they are rarely needed, and they import click."""
        commands = Offers(self._plugins, [_COMMANDS]).by_name(_COMMANDS)
        return CommandTable(commands, tuple(loaded.report() for loaded in self._plugins))


def load_registry(
    tables: Mapping[str, Any],
    *,
    entry_points: Iterable[EntryPointLike] | None = None,
    extra_plugins: Sequence[object] = (),
) -> Registry:
    """Load all plugins and put what they offer in order. A broken plugin is reported, never raised.

    Where two plugins offer one name, it goes to the one that stands first in ``[framework] plugins.prefer``, else to one that
    the program passed, else to the bundled one, else to the first by entry-point name; both are told.

    Args:
        tables: The merged configuration as plain tables.
        entry_points: Instead of those of the installed distributions.
        extra_plugins: Further plugins: modules or objects with hook implementations.

    Raises:
        ConfigError: ``[framework.plugins]`` itself is wrong.
    """
    settings = PluginSettings.from_tables(tables)
    sources = discover(hookspecs.GROUP) if entry_points is None else [source_of(entry) for entry in entry_points]
    plugins = collect(sources, settings, extra_plugins)
    offers = Offers(plugins, [hook for hook in ROLES if hook != _COMMANDS])
    tools = offers.tools()
    found = {role: offers.by_name(hook) for hook, role in ROLES.items() if hook not in ("codex_tools", _COMMANDS)}
    return Registry(
        tools=tools,
        tools_by_call=offers.by_call(tools),
        providers=_items(found["providers"]),
        builtin_providers=offers.builtin_providers(found["providers"]),
        sandboxes=_items(found["sandboxes"]),
        network_proxies=_items(found["network_proxies"]),
        thread_stores=_items(found["thread_stores"]),
        notifiers=tuple(found["notifiers"].values()),
        telemetry=tuple(found["telemetry"].values()),
        observers=tuple(found["observers"].values()),
        context_sources=tuple(_items(found["context_sources"]).values()),
        command_policies=tuple(_items(found["command_policies"]).values()),
        reviewers=tuple(_items(found["reviewers"]).values()),
        interceptors=tuple(sorted(_items(found["interceptors"]).values(), key=lambda one: one.order)),
        programs=offers.programs(tools),
        owners={(role, name): offer.plugin for role, offers_ in found.items() for name, offer in offers_.items()}
        | {("tools", name): registered.plugin for name, registered in tools.items()},
        reports=tuple(loaded.report() for loaded in plugins),
        plugins=tuple(plugins),
    )


def _items(offers: Mapping[str, Offer[Any]]) -> dict[str, Any]:
    return {name: offer.item for name, offer in offers.items()}
