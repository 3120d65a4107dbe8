"""The table of offers: the objects of plugins by hook and name, each checked once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from codex_framework.contract import hookspecs
from codex_framework.contract.hookspecs import Hook
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.plugins import Offer
from codex_framework.loader.imports import place_of
from codex_framework.loader.loading import Plugins
from codex_framework.loader.plugin import LoadedPlugin
from codex_framework.loader.registration import RegisteredTool, registered_tool
from codex_framework.loader.report import PluginProblem
from codex_framework.loader.role_checks import role_problems
from codex_framework.loader.value_checks import click_command_problems, op_problems, value_problems
from codex_framework.toolkit.faults import is_foreign
from codex_framework.toolkit.roles import add_defaults, overrides

__all__ = ["Offer", "Offers", "first_of_each"]

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

_Found = dict[str, tuple[LoadedPlugin, Any]]
"""The objects of a hook by name, each with its plugin."""


class Offers:
    """The objects of plugins. An object that does not fulfil its role is left out and reported, and each name is used once.

    A hook is asked once. The objects of a plugin that fails later are no longer among the offers.
    """

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._table: dict[str, Mapping[str, Offer[Any]]] = {}

    def of(self, hook: Hook[T]) -> Mapping[str, Offer[T]]:
        """Return the usable objects of a hook by name.

        A hook that was not called yet is called now. The objects of ``codex_tools`` are the registered tools.
        """
        if hook.name not in self._table:
            self.collect([hook])
        usable = self._plugins.usable
        return {name: offer for name, offer in self._table[hook.name].items() if offer.plugin in usable}

    def for_role(self, role: type[Any]) -> Mapping[str, Offer[Any]] | None:
        """Return the usable objects for a role by name. None if the role's objects are not selected by name."""
        hook = next((each for each in hookspecs.OFFERING if each.role is role and not each.all_used), None)
        if hook is None:
            return None
        found = self.of(hook)
        if hook is not hookspecs.TOOLS:
            return found
        aliases = (dict.fromkeys(offer.item.aliases, offer) for offer in found.values())
        return {name: Offer(offer.plugin, offer.item.tool) for name, offer in first_of_each([found, *aliases]).items()}

    def safeguards(self, plugins: Collection[str]) -> Mapping[str, list[str]]:
        """Return the safeguards that some plugins offered before they failed, in words, by plugin."""
        lost: dict[str, list[str]] = {}
        for hook in hookspecs.OFFERING:
            for name, offer in self._table.get(hook.name, {}).items() if hook.safeguard else ():
                if offer.plugin in plugins:
                    lost.setdefault(offer.plugin, []).append(f"{hook.plural.replace('_', ' ')} ({name})")
        return lost

    def collect(self, hooks: Collection[Hook[Any]]) -> None:
        """Call hooks of all plugins, each plugin after the plugins that it requires.

        If a hook fails, its whole plugin is disabled.
        """
        if hookspecs.EXEC_OPTIONS in hooks:  # an option sets a field of its plugin's settings
            self._plugins.complete()
        names = [hook.name for hook in hooks]
        answers = {
            plugin: _answers(plugin, names)
            for plugin in self._plugins.order
            if self._plugins.check_requirements(plugin)
        }
        answered = [(plugin, answers[plugin]) for plugin in self._plugins if answers.get(plugin)]
        for hook in hooks:
            offered = ((plugin, item) for plugin, items in answered for item in items.get(hook.name, ()))
            found = _index_by_name(hook, offered)
            if hook.name in _REPORTS:
                _REPORTS[hook.name](found)
            offers = {name: Offer(plugin.name, item) for name, (plugin, item) in found.items()}
            self._table[hook.name] = _sort_offers(offers, hook.order)


def _sort_offers(offers: dict[str, Offer[Any]], order: Callable[[Any], float] | None) -> dict[str, Offer[Any]]:
    return offers if order is None else dict(sorted(offers.items(), key=lambda entry: order(entry[1].item)))


def first_of_each(tables: Iterable[Mapping[K, V]]) -> dict[K, V]:
    """Merge tables. Of several values for a key, the first is used."""
    found: dict[K, V] = {}
    for table in tables:
        for key, value in table.items():
            found.setdefault(key, value)
    return found


def _answers(plugin: LoadedPlugin, hooks: Iterable[str]) -> Mapping[str, list[Any]]:
    answers: dict[str, list[Any]] = {}
    for hook in hooks:
        if hook in plugin.hooks:
            items = plugin.offers(hook)
            if items is None:
                return {}
            answers[hook] = items
    return answers


def _index_by_name(hook: Hook[Any], offered: Iterable[tuple[LoadedPlugin, Any]]) -> _Found:
    found: _Found = {}
    for plugin, item in offered:
        usable, problems = _check_item(hook, plugin, item)
        if problems:
            plugin.leave_out(_left_out(hook, plugin, item, problems))
            continue
        name = hook.key(usable)
        if name in found:
            _report_conflict(hook, name, found[name][0], plugin, item)
            continue
        found[name] = plugin, usable
        plugin.contributes.setdefault(hook.plural, []).append(name)
    return found


def _check_item(hook: Hook[Any], plugin: LoadedPlugin, item: Any) -> tuple[Any, list[str]]:
    """Return an object as the kernel uses it, and the reasons why it cannot be used."""
    if hook is hookspecs.OPS:
        return item, op_problems(item)
    if hook is hookspecs.COMMANDS:
        return item, click_command_problems(item) or value_problems(hook.name, item)
    # The tests check the objects of bundled plugins, so that no start waits for it.
    if hook is hookspecs.TOOLS:
        return registered_tool(plugin.name, item, is_checked=plugin.source.bundled)
    problems = [] if plugin.source.bundled else role_problems(item, hook.role)
    whole = item if problems else add_defaults(item, hook.role)
    return whole, problems or value_problems(hook.name, whole, plugin.settings)


def _report_conflict(hook: Hook[Any], name: str, winner: LoadedPlugin, loser: LoadedPlugin, item: Any) -> None:
    if winner is loser:
        fact = f"it offers the {hook.noun} {name!r} twice"
        loser.leave_out(PluginProblem(fact, "Give each a unique name.", "plugin-name", *_place(hook, loser, item)))
        return
    both = f"{winner.label} and by {loser.label}"
    fact = f"the {hook.noun} {name!r} is offered by {both}; the one of {winner.name!r} is used"
    hint = f'Choose with `[framework] plugins.prefer = ["{loser.name}"]`, or disable one of them.'
    loser.leave_out(PluginProblem(fact, hint, "plugin-name"))
    winner.problems.append(PluginProblem(fact, hint, "plugin-name"))


def _report_aliases(tools: _Found) -> None:
    """Report each alias that is already the name or an alias of another tool."""
    used: dict[str, RegisteredTool] = {name: tool for name, (_, tool) in tools.items()}
    for plugin, tool in tools.values():
        for alias in tool.aliases:
            other = used.setdefault(alias, tool)
            if other is not tool:
                fact = (
                    f"its tool {tool.spec.name!r} has the alias {alias!r}, which is already the name or an alias of"
                    f" {other.spec.name!r} of plugin {other.plugin!r}"
                )
                plugin.leave_out(PluginProblem(fact, "Rename the alias.", "plugin-name"))


def _report_environments(sources: _Found) -> None:
    """Report each environment whose id an earlier plugin uses too."""
    used: dict[str, LoadedPlugin] = {}
    for plugin, source in sources.values():
        for environment in source.environments:
            first = used.setdefault(environment.id, plugin)
            if first is not plugin:
                fact = f"the environment {environment.id!r} is offered by {first.label} and by {plugin.label}"
                text = f"{fact}; the one of {first.name!r} is used"
                problem = PluginProblem(text, "Rename one of them.", "plugin-name")
                plugin.leave_out(problem)
                first.problems.append(problem)


def _report_redaction(interceptors: _Found) -> None:
    """Report each interceptor that seems to redact and is not called. It is used nevertheless."""
    for name, (plugin, item) in interceptors.items():
        redacts = overrides(item, Interceptor, "redact")
        if redacts and not overrides(item, Interceptor, "redacts"):
            fact = "its redact is not called, because its `redacts` is False"
            hint, place = "Set the class attribute `redacts = True`.", place_of(item.redact)
        elif item.redacts and not redacts:
            fact = "its `redacts` is True, but it does not override redact(), so nothing is redacted"
            hint, place = "Write `def redact(self, text, turn)`.", place_of(type(item))
        else:
            continue
        plugin.problems.append(PluginProblem(f"its interceptor {name!r}: {fact}", hint, "plugin-role", *place))


_REPORTS: Mapping[str, Callable[[_Found], None]] = {
    "codex_tools": _report_aliases,
    "codex_environments": _report_environments,
    "codex_interceptors": _report_redaction,
}
"""The functions that report further problems of a hook's objects, by hook."""


def _left_out(hook: Hook[Any], plugin: LoadedPlugin, item: object, problems: Iterable[str]) -> PluginProblem:
    return PluginProblem(
        f"its {hook.noun} {_describe_item(item)} is ignored: {'; '.join(problems)}",
        f"See {hook.name} in docs/reference/hooks.md for the members of the role.",
        "plugin-role",
        *_place(hook, plugin, item),
    )


def _place(hook: Hook[Any], plugin: LoadedPlugin, item: Any) -> tuple[str, int | None]:
    """Return the place of an object: of its function or class, or of the hook if the class is not the plugin's."""
    own = hasattr(item, "__wrapped__") or hasattr(item, "__code__")
    kind = item if isinstance(item, type) else type(item)
    return place_of(plugin.hooks[hook.name] if not own and is_foreign(kind.__module__) else item)


def _describe_item(item: Any) -> str:
    readers: tuple[Callable[[], Any], ...] = (lambda: item.name, lambda: item.spec.name, lambda: item.op.type)
    for read in readers:
        try:
            name = read()
        except Exception:  # noqa: S112  # no such attribute, or a property that raises: that is told elsewhere
            continue
        if isinstance(name, str) and name:
            return repr(name)
    return f"of type {type(item).__name__}"
