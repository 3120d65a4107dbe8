"""The registry: all objects of plugins, checked and by name. It is created with a kernel and never changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.contract import hookspecs
from codex_framework.contract.errors import PluginError
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.context import ContextSource
from codex_framework.contract.roles.environments import EnvironmentSource
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.models import ModelCatalogue, ModelProvider, ProviderInfo
from codex_framework.contract.roles.networks import NetworkProxy
from codex_framework.contract.roles.observers import Notifier, Observer, Telemetry
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.sandboxes import Sandbox
from codex_framework.contract.roles.stores import ThreadStore
from codex_framework.contract.value import Value, field
from codex_framework.loader.collection import Collected, collect
from codex_framework.loader.command_table import CommandTable
from codex_framework.loader.constraining import constraining
from codex_framework.loader.context import LoadContext
from codex_framework.loader.declarations import DECIDING
from codex_framework.loader.discovery import EntryPointLike, discover, source_of
from codex_framework.loader.interceptor_table import InterceptorTable
from codex_framework.loader.late import LateTable
from codex_framework.loader.offers import LAZY, ROLES, Offer, Offers
from codex_framework.loader.registration import RegisteredTool
from codex_framework.loader.report import PluginProblem, PluginReport, PluginStatus
from codex_framework.loader.selection import Selection
from codex_framework.toolkit.faults import advice

if TYPE_CHECKING:
    from codex_framework.config import Config
    from codex_framework.contract.roles.exec_commands import ExecCommand
    from codex_framework.contract.roles.exec_options import ExecOption

__all__ = [
    "CommandTable",
    "Offer",
    "RegisteredTool",
    "Registry",
    "load_exec_commands",
    "load_exec_options",
    "load_registry",
]

_DECLARED = frozenset(hook.__name__ for hook in hookspecs.DECLARATIONS)
_CONSTRAINTS = "codex_constraints"
_CHOICES = {"sandbox": "sandboxes", "compactor": "compactors", "thread_store": "thread_stores"}
"""The keys of ``[framework]`` that select one of several objects, and their role."""


class Registry(Value, kw_only=True):
    """The objects of plugins. Without plugins it is empty, which is valid.

    Attributes:
        tools: By name, in a stable order: that of the plugins, and for one plugin the order in which it offers them.
        tools_by_call: By name and alias, for calls of the model.
        providers: By ``wire_api`` word.
        builtin_providers: Provider ids that need no table in config, of all providers.
        observers, notifiers, telemetry: With the plugin's name, for messages about their failures.
        interceptors: By method and ``order``.
        components, compactors, agents: By name, with the plugin's name.
        ops: Handlers by the op's tag, with the plugin's name.
        reviewers: By their ``order``.
        programs: Commands for the ``PATH`` of what the model runs: name to argv.
        events: The event classes of plugins, by tag.
        config_keys: The settings of Codex that take effect through plugins, as dotted names.
        protected_paths: The paths that plugins protect from everything that the model does.
        owners: ``(role, name)`` to the name of the plugin.
        constrain: Applies the constraints to a configuration. None if none of them concerns it.
        notes: Names in the configuration that match nothing.
        late: Sentences about plugins that came too late for a thread, because the kernel was closing.
    """

    tools: Mapping[str, RegisteredTool] = field(factory=dict)
    tools_by_call: Mapping[str, RegisteredTool] = field(factory=dict)
    providers: Mapping[str, ModelProvider] = field(factory=dict)
    builtin_providers: Mapping[str, ProviderInfo] = field(factory=dict)
    catalogues: Mapping[str, ModelCatalogue] = field(factory=dict)
    sandboxes: Mapping[str, Sandbox] = field(factory=dict)
    network_proxies: Mapping[str, NetworkProxy] = field(factory=dict)
    thread_stores: Mapping[str, ThreadStore] = field(factory=dict)
    notifiers: tuple[Offer[Notifier], ...] = ()
    telemetry: tuple[Offer[Telemetry], ...] = ()
    observers: tuple[Offer[Observer], ...] = ()
    context_sources: tuple[ContextSource, ...] = ()
    command_policies: tuple[CommandPolicy, ...] = ()
    constraints: tuple[Offer[Constraint], ...] = ()
    environment_sources: tuple[Offer[EnvironmentSource], ...] = ()
    reviewers: tuple[Offer[ApprovalReviewer], ...] = ()
    interceptors: InterceptorTable = field(factory=InterceptorTable)
    components: Mapping[str, Offer[Component]] = field(factory=dict)
    ops: Mapping[str, Offer[OpHandler[Any]]] = field(factory=dict)
    compactors: Mapping[str, Offer[Compactor]] = field(factory=dict)
    agents: Mapping[str, Offer[Agent[Any]]] = field(factory=dict)
    programs: Mapping[str, Sequence[str]] = field(factory=dict)
    events: Mapping[str, type[EventMsg]] = field(factory=dict)
    config_keys: frozenset[str] = frozenset()
    protected_paths: tuple[str, ...] = ()
    owners: Mapping[tuple[str, str], str] = field(factory=dict, repr=False)
    constrain: Callable[[Config], Config] | None = field(default=None, repr=False)
    notes: tuple[PluginProblem, ...] = ()
    late: tuple[str, ...] = ()
    _reports: tuple[PluginReport, ...] = field(default=(), alias="reports")
    _collected: Collected | None = field(default=None, repr=False, eq=False, alias="collected")

    def offered(self, role: type[Any]) -> Mapping[str, Offer[Any]] | None:
        """Return the objects for a role by name, without those of plugins that have failed. None if they have no names."""
        from codex_framework.loader.hook_checks import role_of

        attribute = next((name for hook, name in ROLES.items() if role_of(hook) is role), None)
        found = None if attribute is None else getattr(self, attribute)
        if attribute == "tools":
            offers = {name: Offer(known.plugin, known.tool) for name, known in self.tools_by_call.items()}
        elif isinstance(found, Mapping):
            owned = ((name, self.owners.get((str(attribute), name), ""), item) for name, item in found.items())
            offers = {name: item if isinstance(item, Offer) else Offer(plugin, item) for name, plugin, item in owned}
        else:
            return None
        plugins = () if self._collected is None else self._collected.plugins
        usable = {loaded.name for loaded in plugins if loaded.usable}
        return {name: offer for name, offer in offers.items() if offer.plugin in usable}

    @cached_property
    def reports(self) -> tuple[PluginReport, ...]:
        """The outcome for each plugin, in order of precedence. Bundled plugins are asked for all that was not needed yet."""
        if self._collected is None:
            return self._reports
        self._collected.complete()
        len(self.ops)
        pairs = zip(self._reports, self._collected.plugins, strict=True)
        return tuple(_completed(report, loaded.report()) for report, loaded in pairs)

    @property
    def event_owners(self) -> Mapping[type[EventMsg], str]:
        """The names of the plugins that declare event classes."""
        events = {} if self._collected is None else self._collected.events
        return {kind: plugin for plugin, kind in events.values()}

    def without(self, failed: Mapping[str, str]) -> Registry:
        """Return the registry without the objects of some plugins and of the plugins that require them.

        Args:
            failed: The reason by plugin name; it becomes part of the plugin's report.
        """
        failed = {**failed, **self._dependents(failed)}
        changes: dict[str, Any] = {}
        for offered in ("components", "compactors", "agents"):
            changes[offered] = _of_others(getattr(self, offered), failed)
        changes["ops"] = LateTable(lambda: _of_others(self.ops, failed))
        for offered in ("notifiers", "telemetry", "observers", "reviewers", "constraints", "environment_sources"):
            changes[offered] = tuple(offer for offer in getattr(self, offered) if offer.plugin not in failed)
        for role in ("providers", "catalogues", "sandboxes", "network_proxies", "thread_stores"):
            mapping = getattr(self, role)
            changes[role] = {
                name: item for name, item in mapping.items() if self.owners.get((role, name)) not in failed
            }
        for role in ("context_sources", "command_policies"):
            changes[role] = tuple(
                item for item in getattr(self, role) if self.owners.get((role, item.name)) not in failed
            )
        for offered in ("tools", "tools_by_call"):
            changes[offered] = {
                name: tool for name, tool in getattr(self, offered).items() if tool.plugin not in failed
            }
        changes["programs"] = {
            name: argv for tool in reversed(changes["tools"].values()) for name, argv in tool.programs.items()
        }
        changes["builtin_providers"] = {
            key: info for provider in reversed(changes["providers"].values()) for key, info in provider.builtin.items()
        }
        changes["events"] = LateTable(
            lambda: {tag: kind for tag, kind in self.events.items() if self.event_owners[kind] not in failed}
        )
        reports = tuple(_with_failure(report, failed.get(report.name)) for report in self._reports)
        return self.evolve(interceptors=self.interceptors.without(failed), reports=reports, **changes)

    def _dependents(self, failed: Mapping[str, str]) -> Mapping[str, str]:
        """Return why the plugins that require failed ones cannot be used, and mark all of them as unusable."""
        if self._collected is None:
            return {}
        found: dict[str, str] = {}
        requirements = self._collected.requirements
        for loaded, name in () if requirements is None else requirements.dependents(failed):
            found[loaded.name] = (
                f"it requires plugin {name!r}, which cannot be used: {(found.get(name) or failed[name])}"
            )
        for loaded in self._collected.plugins:
            if loaded.usable and (reason := found.get(loaded.name) or failed.get(loaded.name)):
                loaded.fail(_failure(reason, loaded.name))
        return found

    def is_installed(self, plugin: str) -> bool:
        """Return whether a plugin came with a distribution. Otherwise the program passed it."""
        return any(report.name == plugin and report.distribution for report in self._reports)

    @property
    def bundled(self) -> frozenset[str]:
        """The names of the bundled plugins."""
        return frozenset(report.name for report in self._reports if report.bundled)

    def check_safeguards(self, failed: Collection[str]) -> None:
        """Check that plugins that have failed offered no safeguards. Without these, more would be possible than the user wants.

        Args:
            failed: Their names. Their reports say why they have failed.

        Raises:
            PluginError: One offered a safeguard.
        """
        lost: dict[str, list[str]] = {}
        roles = {ROLES[hook]: hook for hook in sorted(DECIDING)}
        for (role, name), plugin in self.owners.items():
            if plugin in failed and role in roles:
                lost.setdefault(plugin, []).append(f"{role.replace('_', ' ')} ({name})")
        for report in self._reports:
            if report.name in lost:
                offered = ", ".join(lost[report.name])
                reason = report.problems[-1].text if report.problems else "it has failed"
                raise PluginError(
                    report.name,
                    f"plugin {report.name!r} cannot be used, and it offers safeguards: {offered}; {reason}",
                    hint=f'Fix the plugin, or do without it: `[framework] plugins.disabled = ["{report.name}"]`.',
                )

    @property
    def code(self) -> tuple[str, ...]:
        """The locations of the plugins' code: files, and folders of packages."""
        plugins = () if self._collected is None else self._collected.plugins
        return tuple(filter(None, (plugin.code for plugin in plugins)))

    def noting(self, problems: Iterable[tuple[str, str]]) -> Registry:
        """Return the registry with further problems, each with a plugin's name, added to the reports."""
        found: dict[str, list[PluginProblem]] = {}
        for plugin, text in problems:
            found.setdefault(plugin, []).append(PluginProblem(text, advice(plugin), "component"))
        if not found:
            return self
        reports = tuple(
            report.evolve(problems=(*report.problems, *found.pop(report.name, ()))) for report in self._reports
        )
        rest = (f"{problem.text}. {problem.hint}" for problems in found.values() for problem in problems)
        return self.evolve(reports=reports).telling(rest)

    def telling(self, sentences: Iterable[str]) -> Registry:
        """Return the registry with sentences about plugins that no thread could be told any more."""
        late = (*self.late, *sentences)
        return self if late == self.late else self.evolve(late=late)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The problems of plugins as sentences for the user. A fact that concerns two plugins appears once."""
        found = {note.fact: f"{note.text}. {note.hint}" for note in self.notes}
        for report in self._reports:
            for fact, sentence in report.warnings.items():
                found.setdefault(fact, sentence)
        return tuple(dict.fromkeys((*found.values(), *self.late)))

    @cached_property
    def command_table(self) -> CommandTable:
        """What plugins add to the CLI. Their hooks are called at first use, because they are rarely needed and import click."""
        if self._collected is None:
            return CommandTable({}, {}, {}, self.reports)
        self._collected.complete()
        len(self.ops)
        offers = Offers(self._collected, LAZY)
        commands, options, subcommands = (offers.by_name(hook) for hook in LAZY)
        reports = tuple(loaded.report() for loaded in self._collected.plugins)
        return CommandTable(commands, options, subcommands, reports)


def load_registry(
    config: Config | Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    entry_points: Iterable[EntryPointLike] | None = None,
    extra_plugins: Sequence[object] = (),
    tolerant: bool = False,
) -> Registry:
    """Load all plugins and collect their objects. A broken plugin is reported and does not raise an exception.

    If two plugins offer the same name, the one that comes first in ``[framework] plugins.prefer`` gets it, else one that the
    program passed, else the bundled one, else the first by entry-point name. Both plugins are reported.

    Args:
        config: The configuration, or only its tables; errors then cannot name the file of a setting.
        environ: The kernel's environment variables, instead of ``os.environ``.
        entry_points: The entry points to use instead of those of the installed distributions.
        extra_plugins: Further plugins: modules, subclasses of ``Plugin``, other objects with hook implementations, or the
            ``Path`` of a one-file plugin.
        tolerant: Whether invalid settings of a plugin are only reported, even if its objects decide what may run.

    Raises:
        ConfigError: ``[framework.plugins]`` itself is invalid, or the settings of a plugin whose objects decide what may run are, or a
            constraint refuses the configuration.
        PluginError: A constraint has failed.
    """
    variables = os.environ if environ is None else environ
    whole = _as_config(config, variables) if isinstance(config, Mapping) else config
    selection = Selection.from_tables(whole.tables)
    collected = _collected(whole, selection, variables, entry_points, extra_plugins)
    for loaded in collected.plugins:
        if loaded.fatal is not None and not tolerant:
            raise loaded.fatal
    constraints = tuple(Offers(collected, [_CONSTRAINTS]).by_name(_CONSTRAINTS).values())
    constrain = constraining(constraints)
    if constrain is not None and not tolerant:
        whole = constrain(whole)
        collected.configure(whole)
    # A turn of `exec` needs no op of a plugin.
    later = (*LAZY, "codex_ops") if collected.only_bundled("codex_ops") else LAZY
    offers = Offers(collected, [hook for hook in ROLES if hook not in (*_DECLARED, *later, _CONSTRAINTS)])
    tools = offers.tools()
    found = {
        role: offers.by_name(hook)
        for hook, role in ROLES.items()
        if hook not in ("codex_tools", "codex_ops", _CONSTRAINTS, *LAZY, *_DECLARED)
    }
    usable = {loaded.name for loaded in collected.plugins if loaded.usable}
    found["constraints"] = {offer.item.name: offer for offer in constraints if offer.plugin in usable}
    notes: tuple[PluginProblem, ...] = ()
    if whole.get("framework"):
        from codex_framework.loader.notes import noted

        notes = noted(whole, selection, collected.plugins, {word: found[role] for word, role in _CHOICES.items()})
    registry = Registry(
        tools=tools,
        tools_by_call=offers.by_call(tools),
        providers=_items(found["providers"]),
        builtin_providers=offers.builtin_providers(found["providers"]),
        catalogues=_items(found["catalogues"]),
        sandboxes=_items(found["sandboxes"]),
        network_proxies=_items(found["network_proxies"]),
        thread_stores=_items(found["thread_stores"]),
        notifiers=tuple(found["notifiers"].values()),
        telemetry=tuple(found["telemetry"].values()),
        observers=tuple(found["observers"].values()),
        context_sources=tuple(_items(found["context_sources"]).values()),
        command_policies=tuple(_items(found["command_policies"]).values()),
        constraints=tuple(found["constraints"].values()),
        environment_sources=offers.environment_sources(found["environment_sources"]),
        reviewers=tuple(sorted(found["reviewers"].values(), key=lambda offer: getattr(offer.item, "order", 100))),
        interceptors=_interceptors(found["interceptors"]),
        components=found["components"],
        ops=LateTable(lambda: Offers(collected, ["codex_ops"]).ops()) if "codex_ops" in later else offers.ops(),
        compactors=found["compactors"],
        agents=found["agents"],
        programs=offers.programs(tools),
        events=LateTable(lambda: {tag: kind for tag, (_, kind) in collected.events.items()}),
        config_keys=frozenset(key for loaded in collected.plugins if loaded.usable for key in loaded.config_keys),
        protected_paths=tuple(path for loaded in collected.plugins for path in loaded.protected_paths),
        owners={(role, name): offer.plugin for role, offers_ in found.items() for name, offer in offers_.items()}
        | {("tools", name): registered.plugin for name, registered in tools.items()},
        constrain=constrain,
        notes=notes,
        reports=tuple(loaded.report() for loaded in collected.plugins),
        collected=collected,
    )
    for loaded in collected.plugins:
        loaded.context.registered = registry.offered
    return registry


def load_exec_options(config: Config, extra_plugins: Sequence[object] = ()) -> Mapping[str, Offer[ExecOption]]:
    """Return the options of ``exec`` that plugins add, by name. Nothing else that the plugins offer is made.

    Raises:
        ConfigError: As for :func:`load_registry`.
    """
    collected = _collected(config, Selection.from_tables(config.tables), os.environ, None, extra_plugins)
    collected.complete()
    return Offers(collected, ["codex_exec_options"]).by_name("codex_exec_options")


def load_exec_commands(config: Config, extra_plugins: Sequence[object] = ()) -> Mapping[str, Offer[ExecCommand]]:
    """Return the subcommands of ``exec`` that plugins add, by name. Nothing else that the plugins offer is made.

    Raises:
        ConfigError: As for :func:`load_registry`.
    """
    collected = _collected(config, Selection.from_tables(config.tables), os.environ, None, extra_plugins)
    return Offers(collected, ["codex_exec_commands"]).by_name("codex_exec_commands")


def _collected(
    config: Config,
    selection: Selection,
    environ: Mapping[str, str],
    entry_points: Iterable[EntryPointLike] | None,
    extra_plugins: Sequence[object],
) -> Collected:
    sources = discover(hookspecs.GROUP) if entry_points is None else [source_of(entry) for entry in entry_points]
    files = [plugin for plugin in extra_plugins if isinstance(plugin, Path)]
    if files or selection.paths:
        from codex_framework.loader.files import file_sources

        sources += file_sources(config, files)
    objects = [plugin for plugin in extra_plugins if not isinstance(plugin, Path)]
    return collect(sources, selection, objects, lambda name: LoadContext(name, config, environ))


def _as_config(tables: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    from codex_framework.config import Config, find_codex_home

    return Config(tables=tables, codex_home=find_codex_home(environ), cwd=Path.cwd())


def _interceptors(offers: Mapping[str, Offer[Interceptor]]) -> InterceptorTable:
    ordered = sorted(_items(offers).values(), key=lambda interceptor: interceptor.order)
    return InterceptorTable(ordered, {name: offer.plugin for name, offer in offers.items()})


def _of_others(offers: Mapping[str, Offer[Any]], failed: Container[str]) -> dict[str, Offer[Any]]:
    return {name: offer for name, offer in offers.items() if offer.plugin not in failed}


def _completed(report: PluginReport, now: PluginReport) -> PluginReport:
    """Return a report with what its plugin has declared and offered since."""
    if report.status in (PluginStatus.FAILED, PluginStatus.DISABLED):
        return report
    later = (problem for problem in now.problems if problem not in report.problems)
    return now.evolve(problems=(*report.problems, *later))


def _with_failure(report: PluginReport, reason: str | None) -> PluginReport:
    if reason is None:
        return report
    problems = (*report.problems, _failure(reason, report.name))
    return report.evolve(status=PluginStatus.FAILED, problems=problems, contributes={})


def _failure(reason: str, plugin: str) -> PluginProblem:
    return PluginProblem(reason, advice(plugin), "component")


def _items(offers: Mapping[str, Offer[Any]]) -> dict[str, Any]:
    return {name: offer.item for name, offer in offers.items()}
