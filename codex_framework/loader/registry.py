"""The registry: the objects of plugins as the kernel uses them, and the outcome of loading each plugin."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from codex_framework.config.config import Config, Layer
from codex_framework.config.keys import merge
from codex_framework.contract import hookspecs
from codex_framework.contract.errors import CodexError, PluginError
from codex_framework.contract.hookspecs import Hook
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.loader.discovery import EntryPointLike
from codex_framework.loader.loading import Plugins, load_plugins
from codex_framework.loader.offers import Offer, Offers, first_of_each
from codex_framework.loader.registration import RegisteredTool
from codex_framework.loader.report import PluginProblem, PluginReport
from codex_framework.loader.selection import find_unmatched_names
from codex_framework.toolkit.faults import advice, error_text
from codex_framework.toolkit.roles import overrides

__all__ = ["LazyMapping", "Offer", "RegisteredTool", "Registry", "combine_constraints", "load_registry"]

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

_CONSTRAINT = "constraint"
"""The name of the layers of configuration that constraints add."""


class LazyMapping(Mapping[K, V]):
    """A mapping that a function makes when it is first read.

    Args:
        make: Returns the mapping. It is called at most once.
    """

    def __init__(self, make: Callable[[], Mapping[K, V]]) -> None:
        self._make = make

    @cached_property
    def _mapping(self) -> Mapping[K, V]:
        return self._make()

    def __getitem__(self, key: K) -> V:
        return self._mapping[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._mapping)

    def __len__(self) -> int:
        return len(self._mapping)

    def __repr__(self) -> str:
        return repr(self._mapping)


def _items(hook: Hook[T]) -> cached_property[Mapping[str, T]]:
    """Return the objects of a hook by name."""
    return cached_property(lambda registry: {name: offer.item for name, offer in registry.offers.of(hook).items()})


def _offers(hook: Hook[T]) -> cached_property[Mapping[str, Offer[T]]]:
    """Return the objects of a hook by name, each with its plugin's name."""
    return cached_property(lambda registry: registry.offers.of(hook))


def _offers_in_order(hook: Hook[T]) -> cached_property[tuple[Offer[T], ...]]:
    """Return the objects of a hook in the order in which they are used, each with its plugin's name."""
    return cached_property(lambda registry: tuple(registry.offers.of(hook).values()))


def _items_in_order(hook: Hook[T]) -> cached_property[tuple[T, ...]]:
    """Return the objects of a hook in the order in which they are used."""
    return cached_property(lambda registry: tuple(offer.item for offer in registry.offers.of(hook).values()))


class Registry:
    """The objects of plugins. Without plugins it is empty, which is valid.

    Every attribute with objects is a view of the table of offers, computed once. If a plugin fails, :meth:`without` returns a
    registry with new views.

    Attributes:
        plugins: The plugins in order of precedence, with what became of each.
        offers: The table.
        providers: By ``wire_api`` word.
        constrain: Applies the constraints to a configuration. None if none of them concerns it.
        notes: Names in the configuration that match nothing.
        late: Sentences about plugins that came too late for a thread, because the kernel was closing.
    """

    def __init__(
        self,
        plugins: Plugins,
        offers: Offers,
        *,
        constrain: Callable[[Config], Config] | None = None,
        notes: Sequence[PluginProblem] = (),
        late: Sequence[str] = (),
    ) -> None:
        self.plugins = plugins
        self.offers = offers
        self.constrain = constrain
        self.notes = tuple(notes)
        self.late = tuple(late)

    # The objects of each hook

    providers = _items(hookspecs.PROVIDERS)
    catalogues = _items(hookspecs.CATALOGUES)
    sandboxes = _items(hookspecs.SANDBOXES)
    network_proxies = _items(hookspecs.NETWORK_PROXIES)
    thread_stores = _items(hookspecs.THREAD_STORES)
    notifiers = _offers_in_order(hookspecs.NOTIFIERS)
    telemetry = _offers_in_order(hookspecs.TELEMETRY)
    observers = _offers_in_order(hookspecs.OBSERVERS)
    change_recorders = _offers_in_order(hookspecs.CHANGE_RECORDERS)
    constraints = _offers_in_order(hookspecs.CONSTRAINTS)
    environment_sources = _offers_in_order(hookspecs.ENVIRONMENT_SOURCES)
    reviewers = _offers_in_order(hookspecs.REVIEWERS)
    interceptors = _offers_in_order(hookspecs.INTERCEPTORS)
    context_sources = _items_in_order(hookspecs.CONTEXT_SOURCES)
    command_policies = _items_in_order(hookspecs.COMMAND_POLICIES)
    components = _offers(hookspecs.COMPONENTS)
    compactors = _offers(hookspecs.COMPACTORS)
    agents = _offers(hookspecs.AGENTS)
    launchers = _items(hookspecs.LAUNCHERS)
    commands = _offers(hookspecs.COMMANDS)
    exec_options = _offers(hookspecs.EXEC_OPTIONS)
    exec_commands = _offers(hookspecs.EXEC_COMMANDS)

    @cached_property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """The tools by name, in a stable order: of the plugins, and for one plugin the order in which it offers them."""
        found: Mapping[str, Offer[Any]] = self.offers.of(hookspecs.TOOLS)
        return {name: offer.item for name, offer in found.items()}

    @cached_property
    def tools_by_call(self) -> Mapping[str, RegisteredTool]:
        """The tools by name and alias, for calls of the model. A name takes precedence over an alias of another tool."""
        return first_of_each([self.tools, *(dict.fromkeys(tool.aliases, tool) for tool in self.tools.values())])

    @cached_property
    def programs(self) -> Mapping[str, Sequence[str]]:
        """The programs that tools add to the ``PATH`` of the model's commands: name to argv. The first one with a name is used."""
        return first_of_each(tool.programs for tool in self.tools.values())

    @cached_property
    def builtin_providers(self) -> Mapping[str, ProviderInfo]:
        """The providers that need no table in the configuration, by id. The first with an id is used."""
        return first_of_each(provider.builtin for provider in self.providers.values())

    @cached_property
    def ops(self) -> Mapping[str, Offer[Any]]:
        """The op handlers by the op's tag. Most runs need no op of a plugin, so the handlers are made at the first look."""
        return LazyMapping(lambda: self.offers.of(hookspecs.OPS))

    @cached_property
    def owners(self) -> Mapping[tuple[str, str], str]:
        """``(role, name)`` to the name of the plugin."""
        hooks = [hook for hook in hookspecs.OFFERING if hook.when == "load"]
        return {(hook.plural, name): offer.plugin for hook in hooks for name, offer in self.offers.of(hook).items()}

    # What plugins declare

    @cached_property
    def events(self) -> Mapping[str, type[EventMsg]]:
        """The event classes of plugins by tag. Bundled plugins declare theirs at the first look."""
        return LazyMapping(lambda: {tag: kind for tag, (_, kind) in self.plugins.events.items()})

    @property
    def event_owners(self) -> Mapping[type[EventMsg], str]:
        """The names of the plugins that declare event classes."""
        return {kind: plugin for plugin, kind in self.plugins.events.values()}

    @cached_property
    def config_keys(self) -> frozenset[str]:
        """The settings of Codex that take effect through plugins, as dotted names."""
        return frozenset(key for plugin in self.plugins if plugin.usable for key in plugin.config_keys)

    @cached_property
    def protected_paths(self) -> tuple[str, ...]:
        """The paths that plugins protect from everything that the model does."""
        return tuple(path for plugin in self.plugins for path in plugin.protected_paths)

    @property
    def code(self) -> tuple[str, ...]:
        """The locations of the plugins' code: files, and folders of packages."""
        return tuple(filter(None, (plugin.code for plugin in self.plugins)))

    # The outcome

    @cached_property
    def reports(self) -> tuple[PluginReport, ...]:
        """The outcome for each plugin, in order of precedence. Bundled plugins are asked for all that was not needed yet."""
        self.plugins.complete()
        len(self.ops)
        return self.plugins.reports()

    @cached_property
    def reports_with_commands(self) -> tuple[PluginReport, ...]:
        """The same, after the hooks for the command line were called as well."""
        self.plugins.complete()
        for hook in hookspecs.OFFERING:
            self.offers.of(hook)
        return self.plugins.reports()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The problems of plugins as sentences for the user. A fact that concerns two plugins appears once."""
        found = {note.fact: f"{note.text}. {note.hint}" for note in self.notes}
        for report in self.plugins.reports():
            for fact, sentence in report.warnings.items():
                found.setdefault(fact, sentence)
        return tuple(dict.fromkeys((*found.values(), *self.late)))

    def is_installed(self, plugin: str) -> bool:
        """Return whether a plugin came with a distribution. Otherwise the program passed it."""
        return any(each.name == plugin and each.source.distribution for each in self.plugins)

    def is_bundled(self, plugin: str) -> bool:
        """Return whether a plugin comes with the framework."""
        return any(each.name == plugin and each.source.bundled for each in self.plugins)

    def without(self, failed: Mapping[str, str]) -> Registry:
        """Return the registry without the objects of some plugins and of the plugins that require them.

        Args:
            failed: The reason by plugin name; it becomes part of the plugin's report.
        """
        self.plugins.withdraw(failed)
        return self._rebuild()

    def check_safeguards(self, failed: Collection[str]) -> None:
        """Check that plugins that have failed offered no safeguards. Without these, more would be possible than the user wants.

        Args:
            failed: Their names. Their reports say why they have failed.

        Raises:
            PluginError: One offered a safeguard.
        """
        lost = self.offers.safeguards(failed)
        for report in self.plugins.reports():
            if report.name in lost:
                reason = report.problems[-1].text if report.problems else "it has failed"
                raise PluginError(
                    report.name,
                    f"plugin {report.name!r} cannot be used, and it offers safeguards: {', '.join(lost[report.name])}; {reason}",
                    hint=f'Fix the plugin, or do without it: `[framework] plugins.disabled = ["{report.name}"]`.',
                )

    def with_problems(self, problems: Iterable[tuple[str, str]]) -> Registry:
        """Return the registry with further problems, each with a plugin's name, added to the reports."""
        unknown = self.plugins.report_problems(
            (plugin, PluginProblem(text, advice(plugin), "component")) for plugin, text in problems
        )
        return self._rebuild([f"{problem.text}. {problem.hint}" for problem in unknown])

    def with_warnings(self, sentences: Iterable[str]) -> Registry:
        """Return the registry with sentences about plugins that came too late for every thread."""
        return self._rebuild(sentences)

    def _rebuild(self, late: Iterable[str] = ()) -> Registry:
        """Return a registry whose views are computed again."""
        return Registry(self.plugins, self.offers, constrain=self.constrain, notes=self.notes, late=(*self.late, *late))


def load_registry(
    config: Config | Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    entry_points: Iterable[EntryPointLike] | None = None,
    extra_plugins: Sequence[object] = (),
    tolerant: bool = False,
) -> Registry:
    """Load all plugins and collect their objects. A broken plugin is reported and does not raise an exception.

    If two plugins offer the same name, the first in ``[framework] plugins.prefer`` gets it. Otherwise a plugin passed by the
    program precedes a bundled plugin, and that precedes the others, which are ordered by entry-point name. Both plugins are
    reported.

    Args:
        config: The configuration, or only its tables; errors then cannot name the file of a setting.
        environ: The kernel's environment variables, instead of ``os.environ``.
        entry_points: Entry points to use instead of the installed distributions.
        extra_plugins: Further plugins: modules, subclasses of ``Plugin``, other objects with hook implementations, or the
            ``Path`` of a one-file plugin.
        tolerant: Whether invalid settings of a plugin are only reported, even if its objects decide which actions are permitted.

    Raises:
        ConfigError: ``[framework.plugins]`` itself is invalid, the settings of a plugin whose objects decide which actions are
            permitted are invalid, or a constraint refuses the configuration.
        PluginError: A constraint has failed.
    """
    variables = os.environ if environ is None else environ
    whole = _as_config(config, variables) if isinstance(config, Mapping) else config
    plugins = load_plugins(whole, environ=variables, entry_points=entry_points, extra_plugins=extra_plugins)
    if not tolerant:
        plugins.raise_fatal()
    offers = Offers(plugins)
    # Constraints come first: they may change the configuration that the other hooks see.
    constrain = combine_constraints(tuple(offers.of(hookspecs.CONSTRAINTS).values()))
    if constrain is not None and not tolerant:
        whole = constrain(whole)
        plugins.configure(whole)
    offers.collect([hook for hook in hookspecs.OFFERING if _is_asked_at_load(hook, plugins)])
    notes = _notes(whole, plugins, offers)
    plugins.publish(offers.for_role)
    return Registry(plugins, offers, constrain=constrain, notes=notes)


def _is_asked_at_load(hook: Hook[Any], plugins: Plugins) -> bool:
    if hook is hookspecs.CONSTRAINTS:
        return False
    return hook.when == "load" or (hook.when == "use" and not plugins.is_bundled_hook(hook.name))


def _notes(config: Config, plugins: Plugins, offers: Offers) -> Sequence[PluginProblem]:
    if not config.get("framework"):
        return ()
    choices = {hook.chosen_by: offers.of(hook) for hook in hookspecs.OFFERING if hook.chosen_by}
    return find_unmatched_names(config, plugins.selection, list(plugins), choices)


def _as_config(tables: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    from codex_framework.config import Config, find_codex_home

    return Config(tables=tables, codex_home=find_codex_home(environ), cwd=Path.cwd())


def combine_constraints(offers: Sequence[Offer[Constraint]]) -> Callable[[Config], Config] | None:
    """Return a function that applies the constraints to a configuration, or None if none of them concerns it.

    It raises CodexError if a constraint refuses the configuration, or fails.
    """
    own = [offer for offer in offers if overrides(offer.item, Constraint, "configure")]
    if not own:
        return None

    def constrain(config: Config) -> Config:
        config = config.evolve(
            layers=tuple(layer for layer in config.layers if layer.name != _CONSTRAINT), constrain=constrain
        )
        for offer in own:
            config = _apply_constraint(config, offer)
        return config

    return constrain


def _apply_constraint(config: Config, offer: Offer[Constraint]) -> Config:
    warnings: list[str] = []
    try:
        table = offer.item.configure(config.tables, warnings.append)
        if not isinstance(table, Mapping):
            raise TypeError(f"it returned {type(table).__name__}, not a table")  # reported as its other mistakes
        tables = merge(config.tables, table)
    except CodexError:
        raise
    except (Exception, SystemExit) as error:  # a broken constraint must not let anything through
        fact = f"constraint {offer.item.name!r}: configure() failed: {error_text(error)}"
        raise PluginError(offer.plugin, fact, hint="Fix the plugin, or disable it.") from error
    if table:
        layer = Layer(_CONSTRAINT, f"constraint {offer.item.name!r}", table)
        config = config.evolve(tables=tables, layers=(*config.layers, layer))
    if warnings:
        config = config.evolve(warnings=tuple(dict.fromkeys((*config.warnings, *warnings))))
    return config
