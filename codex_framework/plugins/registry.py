"""The registry: everything that plugins offer, checked and by name. Made once when a kernel is created; it never changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from codex_framework.contract import hookspecs
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.context import ContextSource
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.models import ModelProvider, ProviderInfo
from codex_framework.contract.roles.networks import NetworkProxy
from codex_framework.contract.roles.observers import Notifier, Observer, Telemetry
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.sandboxes import Sandbox
from codex_framework.contract.roles.stores import ThreadStore
from codex_framework.plugins.collection import collect
from codex_framework.plugins.context import LoadContext
from codex_framework.plugins.discovery import EntryPointLike, discover, source_of
from codex_framework.plugins.interceptor_table import InterceptorTable
from codex_framework.plugins.loaded import Loaded
from codex_framework.plugins.offers import ROLES, Offer, Offers
from codex_framework.plugins.registration import RegisteredTool
from codex_framework.plugins.report import PluginProblem, PluginReport, PluginStatus
from codex_framework.plugins.selection import Selection

if TYPE_CHECKING:
    import click

    from codex_framework.config import Config

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
        interceptors: By method and ``order``.
        components, compactors, agents: By name, with the plugin's name.
        ops: Handlers by the op's tag, with the plugin's name.
        reviewers: By their ``order``.
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
    reviewers: tuple[Offer[ApprovalReviewer], ...] = ()
    interceptors: InterceptorTable = attrs.field(factory=InterceptorTable)
    components: Mapping[str, Offer[Component]] = attrs.field(factory=dict)
    ops: Mapping[str, Offer[OpHandler[Any]]] = attrs.field(factory=dict)
    compactors: Mapping[str, Offer[Compactor]] = attrs.field(factory=dict)
    agents: Mapping[str, Offer[Agent[Any]]] = attrs.field(factory=dict)
    programs: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    owners: Mapping[tuple[str, str], str] = attrs.field(factory=dict, repr=False)
    reports: tuple[PluginReport, ...] = ()
    _plugins: tuple[Loaded, ...] = attrs.field(default=(), repr=False, eq=False, alias="plugins")

    @cached_property
    def events(self) -> Mapping[str, type[EventMsg]]:
        """The event classes of plugins, by tag."""
        return {}

    def without(self, failed: Mapping[str, str]) -> Registry:
        """Return the registry without what some plugins offer.

        Args:
            failed: Why, by the plugin's name; it becomes part of their reports.
        """
        changes: dict[str, Any] = {}
        for field in ("components", "ops", "compactors", "agents"):
            offers = getattr(self, field)
            changes[field] = {name: offer for name, offer in offers.items() if offer.plugin not in failed}
        for field in ("notifiers", "telemetry", "observers", "reviewers"):
            changes[field] = tuple(offer for offer in getattr(self, field) if offer.plugin not in failed)
        for role in ("providers", "sandboxes", "network_proxies", "thread_stores"):
            mapping = getattr(self, role)
            changes[role] = {
                name: item for name, item in mapping.items() if self.owners.get((role, name)) not in failed
            }
        for role in ("context_sources", "command_policies"):
            changes[role] = tuple(
                item for item in getattr(self, role) if self.owners.get((role, item.name)) not in failed
            )
        for field in ("tools", "tools_by_call"):
            changes[field] = {name: tool for name, tool in getattr(self, field).items() if tool.plugin not in failed}
        changes["programs"] = {
            name: argv for tool in reversed(changes["tools"].values()) for name, argv in tool.programs.items()
        }
        changes["builtin_providers"] = {
            key: info for provider in reversed(changes["providers"].values()) for key, info in provider.builtin.items()
        }
        reports = tuple(_with_failure(report, failed.get(report.name)) for report in self.reports)
        return attrs.evolve(self, interceptors=self.interceptors.without(failed), reports=reports, **changes)

    def is_installed(self, plugin: str) -> bool:
        """Return whether a plugin came with a distribution. Otherwise the program passed it."""
        return any(report.name == plugin and report.distribution for report in self.reports)

    def noting(self, problems: Iterable[tuple[str, str]]) -> Registry:
        """Return the registry with more problems of plugins, each with the plugin's name, in their reports."""
        found: dict[str, list[PluginProblem]] = {}
        for plugin, text in problems:
            found.setdefault(plugin, []).append(PluginProblem(text, "Fix the plugin, or disable it.", "component"))
        if not found:
            return self
        reports = (report.evolve(problems=(*report.problems, *found.get(report.name, ()))) for report in self.reports)
        return attrs.evolve(self, reports=tuple(reports))

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
    config: Config | Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    entry_points: Iterable[EntryPointLike] | None = None,
    extra_plugins: Sequence[object] = (),
) -> Registry:
    """Load all plugins and put what they offer in order. A broken plugin is reported, never raised.

    Where two plugins offer one name, it goes to the one that stands first in ``[framework] plugins.prefer``, else to one that
    the program passed, else to the bundled one, else to the first by entry-point name; both are told.

    Args:
        config: The configuration, or its tables alone: then nothing can be said of the file where a setting stands.
        environ: The kernel's environment variables, instead of ``os.environ``.
        entry_points: Instead of those of the installed distributions.
        extra_plugins: Further plugins: modules, subclasses of ``Plugin``, or other objects with hook implementations.

    Raises:
        ConfigError: ``[framework.plugins]`` itself is wrong.
    """
    variables = os.environ if environ is None else environ
    whole = _as_config(config, variables) if isinstance(config, Mapping) else config
    selection = Selection.from_tables(whole.tables)
    sources = discover(hookspecs.GROUP) if entry_points is None else [source_of(entry) for entry in entry_points]
    plugins = collect(sources, selection, extra_plugins, lambda name: LoadContext(name, whole, variables))
    offers = Offers(plugins, [hook for hook in ROLES if hook != _COMMANDS])
    tools = offers.tools()
    found = {
        role: offers.by_name(hook)
        for hook, role in ROLES.items()
        if hook not in ("codex_tools", "codex_ops", _COMMANDS)
    }
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
        reviewers=tuple(sorted(found["reviewers"].values(), key=lambda offer: getattr(offer.item, "order", 100))),
        interceptors=_interceptors(found["interceptors"]),
        components=found["components"],
        ops=offers.ops(),
        compactors=found["compactors"],
        agents=found["agents"],
        programs=offers.programs(tools),
        owners={(role, name): offer.plugin for role, offers_ in found.items() for name, offer in offers_.items()}
        | {("tools", name): registered.plugin for name, registered in tools.items()},
        reports=tuple(loaded.report() for loaded in plugins),
        plugins=tuple(plugins),
    )


def _as_config(tables: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    from codex_framework.config import Config, find_codex_home

    return Config(tables=tables, codex_home=find_codex_home(environ), cwd=Path.cwd())


def _interceptors(offers: Mapping[str, Offer[Interceptor]]) -> InterceptorTable:
    ordered = sorted(_items(offers).values(), key=lambda interceptor: interceptor.order)
    return InterceptorTable(ordered, {name: offer.plugin for name, offer in offers.items()})


def _with_failure(report: PluginReport, reason: str | None) -> PluginReport:
    if reason is None:
        return report
    problem = PluginProblem(reason, "Fix the plugin, or disable it.", "component")
    return report.evolve(status=PluginStatus.FAILED, problems=(*report.problems, problem), contributes={})


def _items(offers: Mapping[str, Offer[Any]]) -> dict[str, Any]:
    return {name: offer.item for name, offer in offers.items()}
