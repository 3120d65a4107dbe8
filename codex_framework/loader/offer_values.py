"""Checks the values of attributes that the kernel reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codex_framework.contract.errors import described
from codex_framework.contract.roles.agents import Agent, TaskRole
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.context import READABLE
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.outcomes import Limits
from codex_framework.contract.roles.scopes import ServiceKey

__all__ = ["BUILT_IN_COMMANDS", "agent_problems", "value_problems"]

BUILT_IN_COMMANDS = frozenset(
    {"exec", "e", "resume", "config", "trust", "plugins", "demo", "sandbox", "completion", "debug"}
)
"""Names of the command line that plugins cannot take."""


def value_problems(hook: str, item: Any, settings: type[Any] | None = None) -> list[str]:
    """Return the problems of attributes that the kernel reads.

    Args:
        settings: The class of the plugin's settings, if it has one.
    """
    try:
        if hook == "codex_exec_options":
            from codex_framework.loader.exec_options import option_problems

            return list(option_problems(item, settings))
        if hook == "codex_exec_commands":
            from codex_framework.loader.exec_commands import command_problems

            return list(command_problems(item, BUILT_IN_COMMANDS))
        if not isinstance(item.name, str) or not item.name:
            return [f"its name is {item.name!r}, not a non-empty string"]
        check = _CHECKS.get(hook)
        return [] if check is None else list(check(item))
    except Exception as error:  # a plugin's property may raise anything
        return [f"its attributes cannot be read: {described(error)}"]


def agent_problems(agent: Any) -> Iterator[str]:
    """Yield the problems of an agent's fields."""
    if not isinstance(agent, Agent):
        yield f"it is {type(agent).__name__}, not an Agent"
        return
    for field in ("allowed_tools", "disallowed_tools", "context"):
        value = getattr(agent, field)
        if value is not None and not _words(value):
            yield f"its {field} is {value!r}, not a list of strings"
    for field in ("instructions", "model", "reasoning_effort", "permissions", "approval_policy"):
        value = getattr(agent, field)
        if value is not None and not isinstance(value, str):
            yield f"its {field} is {value!r}, not a string"
    tools: Any = agent.tools
    if not isinstance(tools, (list, tuple)):
        yield f"its tools are {tools!r}, not a list of tools and functions"
    limits: Any = agent.limits
    loop: Any = agent.loop
    if not isinstance(limits, Limits):
        yield f"its limits is {limits!r}; use Limits(requests=..., tokens=..., tool_calls=..., seconds=...)"
    if loop is not None and not isinstance(loop, TaskRole):
        yield f"its loop is {loop!r}, not an instance of a subclass of Task"


def _component_problems(item: Any) -> Iterator[str]:
    if not isinstance(item, Component):
        yield "it is not derived from codex_framework.Component"
        return
    for field in ("provides", "requires"):
        keys = getattr(item, field)
        if not isinstance(keys, (list, tuple)) or not all(isinstance(key, ServiceKey) for key in keys):
            yield f"its {field} is {keys!r}, not a list of ServiceKey"
    yield from _limit_problems(item, "start_timeout_s", "close_timeout_s")


def _environment_problems(item: Any) -> Iterator[str]:
    from codex_framework.contract.roles.environments import Environment, is_environment_id
    from codex_framework.loader.role_checks import role_problems

    if not isinstance(item.environments, (list, tuple)):
        yield f"its environments are {item.environments!r}, not a list"
        return
    ids = []
    for environment in item.environments:
        problems = role_problems(environment, Environment)
        yield from (f"an environment does not fulfil its role: {text}" for text in problems)
        if not problems:
            ids.append(environment.id)
    for name in ids:
        if not is_environment_id(name):
            yield f"the id of an environment is {name!r}, not one of ASCII letters, digits, `-` and `_`, or it is reserved"
        elif ids.count(name) > 1:
            yield f"two environments have the id {name!r}"
    if item.default is not None and not _words(item.default):
        yield f"its default is {item.default!r}, not a list of ids"
    if not isinstance(item.has_local, bool):
        yield f"its has_local is {item.has_local!r}, not True or False"


def _limit_problems(item: Any, *fields: str) -> Iterator[str]:
    for field in fields or ("close_timeout_s",):
        seconds = getattr(item, field)
        if not isinstance(seconds, (int, float)) or seconds < 0:
            yield f"its {field} is {seconds!r}, not a number of seconds"


def _compactor_problems(item: Any) -> Iterator[str]:
    if not isinstance(item, Compactor):
        yield "it is not derived from codex_framework.Compactor"


def _order_problems(item: Any) -> Iterator[str]:
    order = getattr(item, "order", 100)
    if not isinstance(order, (int, float)):
        yield f"its order is {order!r}, not a number"


def _source_problems(item: Any) -> Iterator[str]:
    reads = item.reads
    if reads is not None and not (isinstance(reads, (frozenset, set)) and reads <= READABLE.keys()):
        yield f"its reads is {reads!r}, not a set of these words: {', '.join(READABLE)}"


def _provider_problems(item: Any) -> Iterator[str]:
    for key, info in item.builtin.items():
        if not isinstance(info, ProviderInfo):
            yield f"its builtin provider {key!r} is not a ProviderInfo"


def _words(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value)


_CHECKS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "codex_agents": agent_problems,
    "codex_approval_reviewers": _order_problems,
    "codex_compactors": _compactor_problems,
    "codex_components": _component_problems,
    "codex_context_sources": _source_problems,
    "codex_environments": _environment_problems,
    "codex_interceptors": _order_problems,
    "codex_model_providers": _provider_problems,
    "codex_network_proxies": _limit_problems,
    "codex_sandboxes": _limit_problems,
}
