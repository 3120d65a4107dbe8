"""The tool router: the table of the tools of a sample, which finds the tool of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, get_args

from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.plugins.registration import RegisteredTool, registered_tool
from codex_framework.plugins.registry import Registry
from codex_framework.threads.faults import Label, WrongValue, explained
from codex_framework.threads.notices import Notices
from codex_framework.threads.thread_parts import ThreadParts

__all__ = ["ToolRouter"]

_SPECS: tuple[type, ...] = get_args(ToolSpec)


class ToolRouter:
    """The tools of a sample: the agent's own, then those of plugins, then those of thread components. The first name wins.

    Attributes:
        version: The thread's ``tools_version`` that it was made for.
        specs: What is offered, in a stable order, on which providers' prompt caches depend.
        withheld: Sentences for people: tools that could not be taken, and why.
        unmatched: Sentences for people: names of tools in the agent that no tool has.
    """

    def __init__(
        self,
        registry: Registry,
        facts: TurnFacts,
        *,
        agent: Agent[Any] | None = None,
        parts: ThreadParts | None = None,
        version: int = 0,
        notices: Notices | None = None,
    ) -> None:
        notices = notices or Notices(lambda _: None)
        self.version = version
        self.unmatched: Sequence[str] = ()
        self.withheld: list[str] = []
        self._by_name: Mapping[str, RegisteredTool] = registry.tools
        self._by_call: Mapping[str, RegisteredTool] = registry.tools_by_call
        if agent is not None or parts:
            self._gather(registry, facts, agent, parts)
        self.specs: tuple[ToolSpec, ...] = tuple(self._offered(facts, notices))

    def _offered(self, facts: TurnFacts, notices: Notices) -> Iterator[ToolSpec]:
        """What is offered. A tool that cannot say whether it is, or in which form, is not."""
        for registered in self._by_name.values():
            if registered.exposure != "direct":
                continue
            method = "offered"
            try:
                ask = registered.offered
                if ask is not None and not notices.timed(_label(registered), method, ask, facts):
                    continue
                if registered.spec_for is None:
                    yield registered.spec
                    continue
                method = "spec_for"
                spec = notices.timed(_label(registered), method, registered.spec_for, facts)
                yield _fitting(spec, registered)
            except Exception as error:  # a plugin may raise anything
                notices.tell(f"{_label(registered).failed(method, error)}. The tool is not offered.")

    def find(self, name: str) -> RegisteredTool | None:
        """Return the tool that a call names, by name or alias."""
        return self._by_call.get(name)

    def _gather(
        self, registry: Registry, facts: TurnFacts, agent: Agent[Any] | None, parts: ThreadParts | None
    ) -> None:
        tools: dict[str, RegisteredTool] = {}
        for registered in self._own(agent):
            self._add(tools, registered)
        for registered in registry.tools.values():
            self._add(tools, registered)
        for plugin, tool in parts.tools(facts) if parts else ():
            found, problems = registered_tool(plugin, tool)
            if found is None:
                self.withheld.append(f"a tool of plugin {plugin!r} is left out: {'; '.join(problems)}")
            else:
                self._add(tools, found)
        if agent is not None:
            self.unmatched = tuple(_unmatched(agent, tools))
            tools = {name: registered for name, registered in tools.items() if _allowed(name, agent)}
        calls = dict(tools)
        for registered in tools.values():
            for alias in registered.aliases:
                calls.setdefault(alias, registered)
        self._by_name, self._by_call = tools, calls

    def _own(self, agent: Agent[Any] | None) -> Iterable[RegisteredTool]:
        """The agent's own tools; functions become tools here."""
        for tool in () if agent is None else agent.tools:
            name = "" if agent is None else agent.name
            try:
                registered, problems = registered_tool(f"agent {name}", _as_tool(tool))
            except Exception as error:  # a function that no tool can be made of
                registered, problems = None, [explained(error)]
            if registered is None:
                self.withheld.append(f"a tool of agent {name!r} is left out: {'; '.join(problems)}")
            else:
                yield registered

    def _add(self, tools: dict[str, RegisteredTool], registered: RegisteredTool) -> None:
        name = registered.spec.name
        winner = tools.setdefault(name, registered)
        if winner is not registered:
            self.withheld.append(
                f"the tool {name!r} of plugin {registered.plugin!r} is withheld, because {winner.plugin!r} has one of this name"
            )


def _label(registered: RegisteredTool) -> Label:
    return Label("tool", registered.spec.name, registered.plugin)


def _fitting(given: object, registered: RegisteredTool) -> ToolSpec:
    spec: Any = given
    if not isinstance(given, _SPECS):
        raise WrongValue(f"it returned {type(spec).__name__}, not the spec of a tool", registered.spec_for)
    if spec.name != registered.spec.name:
        raise WrongValue(f"it returned the spec of a tool {spec.name!r}", registered.spec_for)
    found: ToolSpec = spec
    return found


def _as_tool(tool: Any) -> Any:
    if not callable(tool) or hasattr(tool, "spec"):
        return tool
    from codex_framework.toolkit.tool import tool as tool_of

    return tool_of(tool)


def _unmatched(agent: Agent[Any], tools: Mapping[str, RegisteredTool]) -> Iterator[str]:
    """Sentences about patterns of an agent that match no tool."""
    for field in ("allowed_tools", "disallowed_tools"):
        for pattern in getattr(agent, field) or ():
            if not any(fnmatchcase(name, pattern) for name in tools):
                from difflib import get_close_matches

                near = get_close_matches(pattern, tools, n=1)
                hint = f"Did you mean {near[0]!r}?" if near else "`codex-framework plugins` shows what there is."
                yield f"agent {agent.name!r}: its {field} names {pattern!r}, and there is no such tool. {hint}"


def _allowed(name: str, agent: Agent[Any]) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in agent.disallowed_tools):
        return False
    return agent.allowed_tools is None or any(fnmatchcase(name, pattern) for pattern in agent.allowed_tools)
