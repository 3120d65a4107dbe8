"""The tables of tools, which threads with the same sources of tools share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.tool_specs import DeferredTool
from codex_framework.contract.roles.tools import Tool
from codex_framework.loader.registration import RegisteredTool, registered_tool
from codex_framework.loader.registry import Registry
from codex_framework.threads.faults import error_message

__all__ = ["ToolTable", "ToolTables", "allowed_names"]

ToolOffer: TypeAlias = tuple[str, Tool]
"""A plugin's name and one of its tools."""


class ToolTable:
    """Tools by name: the agent's tools, then plugins' tools, then components' tools. The first name wins.

    Attributes:
        offers: The tools of components.
        by_name, by_call: The tools by name, and by name and alias.
        withheld: Sentences for the user about tools that are not used, with the reason.
        unmatched: Sentences for the user about names in the agent that match no tool.
        direct: The tools that are always offered.
        deferred: The tools that must be found by a search, with their search entries.
    """

    def __init__(
        self,
        tables: ToolTables,
        registry: Registry,
        agent: Agent[Any] | None,
        above: Sequence[Agent[Any]],
        offers: Sequence[ToolOffer],
    ) -> None:
        self._sources = (registry, agent, above)  # kept, because their ids are in the table's key
        self._own = () if agent is None else tuple(agent.tools)
        self.offers = offers
        self.withheld: list[str] = []
        self.unmatched: Sequence[str] = ()
        self.by_name: Mapping[str, RegisteredTool] = registry.tools
        self.by_call: Mapping[str, RegisteredTool] = registry.tools_by_call
        if agent is not None or above or offers:
            self._gather(tables)
        tools = self.by_name.values()
        self.direct = tuple(registered for registered in tools if registered.exposure == "direct")
        self.deferred = tuple((each, _as_deferred(each)) for each in tools if each.exposure == "deferred")
        self._reads = frozenset[str]().union(*(each.reads for each in tools if each.reads is not None))
        self._facts: Sequence[object] = ()
        self._answers: dict[tuple[str, str], Any] = {}

    def answers(self, facts: TurnFacts) -> dict[tuple[str, str], Any]:
        """Return the answers of tools that declare ``reads`` under these facts, by tool and method."""
        values = [getattr(facts, name) for name in self._reads]
        if values != self._facts:
            self._facts, self._answers = values, {}
        return self._answers

    def _gather(self, tables: ToolTables) -> None:
        registry, agent, above = self._sources
        tools: dict[str, RegisteredTool] = {}
        if agent is not None:
            for tool in self._own:
                self._add(tools, *_register_own(tables, agent, tool))
        for registered in registry.tools.values():
            self._add(tools, registered)
        for plugin, tool in self.offers:
            self._add(tools, *tables.register(plugin, tool), f"a tool of plugin {plugin!r}")
        if agent is not None:
            self.unmatched = (*_find_unmatched_patterns(agent, tools), *_ruled_out(agent, above, tools))
        bounds = [each for each in (agent, *above) if each is not None]
        if bounds:
            tools = {name: found for name, found in tools.items() if all(_is_allowed(name, each) for each in bounds)}
        calls = dict(tools)
        for registered in tools.values():
            for alias in registered.aliases:
                calls.setdefault(alias, registered)
        self.by_name, self.by_call = tools, calls

    def _add(
        self,
        tools: dict[str, RegisteredTool],
        registered: RegisteredTool | None,
        problems: Sequence[str] = (),
        what: str = "",
    ) -> None:
        if registered is None:
            self.withheld.append(f"{what} is ignored: {'; '.join(problems)}")
            return
        name = registered.spec.name
        winner = tools.setdefault(name, registered)
        if winner is not registered:
            self.withheld.append(
                f"the tool {name!r} of plugin {registered.plugin!r} is not offered, because {winner.plugin!r}"
                " has a tool with the same name"
            )


class ToolTables:
    """The tables of tools of one kernel. A table lives as long as a thread uses it, or until another one is asked for.

    A tool is checked, and its ``spec`` read, when it first appears in a table.
    """

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[Any, ToolTable] = WeakValueDictionary()
        self._registered: WeakValueDictionary[tuple[str, int], RegisteredTool] = WeakValueDictionary()
        self._newest: ToolTable | None = None

    def table(
        self,
        registry: Registry,
        agent: Agent[Any] | None = None,
        above: Sequence[Agent[Any]] = (),
        offers: Sequence[ToolOffer] = (),
    ) -> ToolTable:
        """Return the table for a thread.

        Args:
            above: The agents of the thread's ancestors. The table has no tool that one of them may not use.
            offers: The tools of components.
        """
        key = (
            id(registry),
            None if agent is None else (*_limits_of(agent), *map(id, agent.tools)),
            *map(_limits_of, above),
            *((plugin, id(tool)) for plugin, tool in offers),
        )
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = ToolTable(self, registry, agent, above, offers)
        self._newest = table
        return table

    def register(self, plugin: str, tool: Tool) -> tuple[RegisteredTool | None, Sequence[str]]:
        """Return the registered tool, or all reasons why it cannot be used."""
        key = (plugin, id(tool))  # no other object gets this id while the registered tool lives
        registered = self._registered.get(key)
        if registered is not None:
            return registered, ()
        registered, problems = registered_tool(plugin, tool)
        if registered is not None:
            self._registered[key] = registered
        return registered, problems

    def forget(self, plugin: str) -> None:
        """Forget the tools of a plugin and the tables that contain them, because the plugin has changed tools."""
        for key in [key for key in self._registered if key[0] == plugin]:
            del self._registered[key]
        for key, table in list(self._tables.items()):
            if any(owner == plugin for owner, _ in table.offers):
                del self._tables[key]


def _as_deferred(registered: RegisteredTool) -> DeferredTool:
    return DeferredTool(
        spec=registered.spec, plugin=registered.plugin, keywords=registered.keywords, source=registered.source
    )


def _register_own(tables: ToolTables, agent: Agent[Any], tool: Any) -> tuple[RegisteredTool | None, Sequence[str], str]:
    """Register an agent's own tool, which may be a function."""
    what = f"a tool of agent {agent.name!r}"
    try:
        return *tables.register(f"agent {agent.name}", _as_tool(agent, tool)), what
    except Exception as error:  # a function that cannot become a tool
        return None, [error_message(error)], what


def _as_tool(agent: Agent[Any], tool: Any) -> Any:
    return agent.descriptions.tool(tool) if callable(tool) and not hasattr(tool, "spec") else tool


def _find_unmatched_patterns(agent: Agent[Any], tools: Mapping[str, RegisteredTool]) -> Iterator[str]:
    """Yield sentences about patterns of an agent that match no tool."""
    for field in ("allowed_tools", "disallowed_tools"):
        for pattern in getattr(agent, field) or ():
            if not any(fnmatchcase(name, pattern) for name in tools):
                from difflib import get_close_matches

                near = get_close_matches(pattern, tools, n=1)
                hint = f"Did you mean {near[0]!r}?" if near else "`codex-framework plugins` lists the tools of plugins."
                yield f"agent {agent.name!r}: its {field} names {pattern!r}, but there is no such tool. {hint}"


def _ruled_out(agent: Agent[Any], above: Sequence[Agent[Any]], tools: Mapping[str, RegisteredTool]) -> Iterator[str]:
    """Yield sentences about patterns of an agent that match only tools which the agents of its ancestors may not use."""
    for pattern, names in allowed_names(agent, tools):
        limiting = [each for name in names for each in above if not _is_allowed(name, each)]
        if names and not any(all(_is_allowed(name, each) for each in above) for name in names):
            yield (
                f"agent {agent.name!r}: its allowed_tools names {pattern!r}, but agent {limiting[0].name!r}, above it, does not allow"
                f" {', '.join(names)}. Allow it there too, or remove it here."
            )


def allowed_names(agent: Agent[Any], tools: Iterable[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each pattern of an agent's ``allowed_tools`` with the names of the tools that match it."""
    for pattern in agent.allowed_tools or ():
        yield pattern, [name for name in tools if fnmatchcase(name, pattern)]


def _limits_of(agent: Agent[Any]) -> tuple[object, ...]:
    """Return the data on which a table depends in an ancestor's agent. A program may pass lists, and change them between turns."""
    allowed = agent.allowed_tools
    return id(agent), None if allowed is None else tuple(allowed), tuple(agent.disallowed_tools)


def _is_allowed(name: str, agent: Agent[Any]) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in agent.disallowed_tools):
        return False
    return agent.allowed_tools is None or any(fnmatchcase(name, pattern) for pattern in agent.allowed_tools)
