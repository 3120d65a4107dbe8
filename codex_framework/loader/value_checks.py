"""Checks the values of attributes that the kernel reads."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from codex_framework.contract.errors import described
from codex_framework.contract.protocol.ops import KernelOp, Op
from codex_framework.contract.roles.agents import Agent, TaskRole
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component, ThreadComponent
from codex_framework.contract.roles.context import READABLE
from codex_framework.contract.roles.environments import Environment, is_environment_id
from codex_framework.contract.roles.exec_commands import CommandOption, ExecCommand
from codex_framework.contract.roles.exec_options import ExecOption
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.outcomes import Limits
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.value import Value, fields_of
from codex_framework.loader.role_checks import role_problems
from codex_framework.loader.static_commands import name_problems
from codex_framework.toolkit.roles import overrides

__all__ = [
    "BUILT_IN_OPTIONS",
    "COMMAND_NAME",
    "agent_problems",
    "click_command_problems",
    "op_problems",
    "value_problems",
]

BUILT_IN_OPTIONS = frozenset(
    """
    add-dir agent all approve-for-me ask-for-approval cd color config cyber-access-program
    dangerously-bypass-approvals-and-sandbox dangerously-bypass-hook-trust disable enable ephemeral experimental-json
    full-auto heartbeat help ignore-rules ignore-user-config image include-non-interactive json last model
    no-alt-screen no-daemon output-last-message output-schema plugin profile sandbox search skip-git-repo-check
    strict-config thread-source trust version worktree yolo
    """.split()  # noqa: SIM905
)
"""Names of options of ``exec`` that plugins cannot take."""

COMMAND_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
"""The form of the names of subcommands and options of ``exec``."""

_BUILT_IN_SUBCOMMANDS = ("resume", "help", "exec", "e")


def value_problems(hook: str, item: Any, settings: type[Any] | None = None) -> list[str]:
    """Return the problems of attributes that the kernel reads.

    Args:
        settings: The class of the plugin's settings, if it has one.
    """
    try:
        if hook == "codex_exec_options":
            return list(_exec_option_problems(item, settings))
        if hook == "codex_exec_commands":
            return list(_exec_command_problems(item))
        if not isinstance(item.name, str) or not item.name:
            return [f"its name is {item.name!r}, not a non-empty string"]
        check = _CHECKS.get(hook)
        return [] if check is None else list(check(item))
    except Exception as error:  # a plugin's property may raise anything
        return [f"its attributes cannot be read: {described(error)}"]


def op_problems(item: Any) -> list[str]:
    """Return the reasons why an op handler cannot be used."""
    try:
        kind = item.op
    except Exception as error:  # a plugin's property may raise anything
        return [f"it has no attribute op: {described(error)}"]
    if not (isinstance(kind, type) and issubclass(kind, Op)):
        return [f"its op is {kind!r}, not a subclass of Op"]
    if not isinstance(kind.type, str) or not kind.type:
        return [f"its op {kind.__name__} has no tag: set its class attribute `type`"]
    if kind.type in {built_in.type for built_in in get_args(KernelOp)}:
        return [f"the op {kind.type!r} is built in and cannot be replaced"]
    if not inspect.iscoroutinefunction(getattr(item, "handle", None)):
        return ["it has no `async def handle(self, op, thread, id)`"]
    return []


def click_command_problems(item: object) -> list[str]:
    """Return the reasons why a click command cannot be used, without importing click."""
    missing: Iterator[str] = (name for name in ("name", "invoke", "main") if not hasattr(item, name))
    problems = [f"it is {type(item).__name__}, not a click command: it has no {name}" for name in missing][:1]
    return problems + name_problems(getattr(item, "name", None))


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
    if item.part_when not in ("start", "use"):
        yield f'its part_when is {item.part_when!r}, not "start" or "use"'
    elif item.part_when == "use":
        yield from _part_problems(item)


def _part_problems(item: Component) -> Iterator[str]:
    declared: Any = inspect.getattr_static(item, "part_class")
    if declared is inspect.getattr_static(Component, "part_class"):
        yield 'its part_when is "use", but it has no part_class: name the class of its parts, by which they are asked for'
    elif not hasattr(declared, "__get__") and not (  # a property imports the class when it is needed
        isinstance(declared, type) and issubclass(declared, ThreadComponent)
    ):
        yield f"its part_class is {declared!r}, not a subclass of ThreadComponent"
    if not overrides(item, Component, "for_thread"):
        yield 'its part_when is "use", but it has no for_thread, which creates the parts'
    if not _words(item.part_entries):
        yield f"its part_entries are {item.part_entries!r}, not a list of words"


def _environment_problems(item: Any) -> Iterator[str]:

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


def _exec_option_problems(option: ExecOption, settings: type[Any] | None) -> Iterator[str]:
    """Yield the reasons why an option of ``exec`` cannot be used."""
    name: Any = option.name
    if not isinstance(name, str) or not re.fullmatch(COMMAND_NAME, name):
        yield f"its name is {name!r}; use lower-case letters, digits and single dashes, beginning with a letter"
    elif name in BUILT_IN_OPTIONS:
        yield f"the option --{name} is built in and cannot be replaced; give yours another name"
    if option.setting is None:
        if option.implies is None and option.open_thread is None:
            yield "it has no effect: give it a setting, implies or open_thread"
    elif option.setting not in _fields(settings):
        yield f"it sets {option.setting!r}, which is not a field of the class that codex_settings returns"
    for field in ("text", "metavar"):
        value = getattr(option, field)
        if not isinstance(value, str) and (value is not None or field == "text"):
            yield f"its {field} is {value!r}, not a string"
    choices: Any = option.choices
    if not isinstance(choices, (list, tuple)) or not all(isinstance(choice, str) for choice in choices):
        yield f"its choices are {choices!r}, not a list of strings"
    for field in ("implies", "open_thread"):
        value = getattr(option, field)
        if value is not None and not callable(value):
            yield f"its {field} is {value!r}, which cannot be called"
    if option.metavar is None and (option.many or option.choices or option.is_path):
        yield "it has no metavar, so it has no value; leave out many, choices and is_path"


def _fields(settings: type[Any] | None) -> set[str]:
    if settings is None:
        return set()
    if issubclass(settings, Value):
        return {field.name for field in fields_of(settings)}
    return {field.name for field in settings.__attrs_attrs__}


def _exec_command_problems(command: ExecCommand) -> Iterator[str]:
    """Yield the reasons why a subcommand of ``exec`` cannot be used."""
    name: Any = command.name
    if not isinstance(name, str) or not re.fullmatch(COMMAND_NAME, name):
        yield f"its name is {name!r}; use lower-case letters, digits and single dashes, beginning with a letter"
    elif name in _BUILT_IN_SUBCOMMANDS:
        yield f"the command {name!r} is built in and cannot be replaced; give yours another name"
    elif command.alone:
        yield from name_problems(name)
    request: Any = command.request
    if not callable(request):
        yield f"its request is {request!r}, not a function"
    for field in ("text", "argument"):
        value = getattr(command, field)
        if not isinstance(value, str) and (value is not None or field == "text"):
            yield f"its {field} is {value!r}, not a string"
    options: Any = command.options
    if not isinstance(options, (list, tuple)):
        yield f"its options are {options!r}, not a list of CommandOption"
        return
    for option in options:
        yield from _command_option_problems(option)


def _command_option_problems(option: Any) -> Iterator[str]:
    if not isinstance(option, CommandOption):
        yield f"one of its options is {option!r}, not a CommandOption"
        return
    name: Any = option.name
    texts: tuple[Any, ...] = (option.text, option.metavar or "")
    if not isinstance(name, str) or not re.fullmatch(COMMAND_NAME, name):
        yield f"one of its options has the name {name!r}; use lower-case letters, digits and single dashes"
    elif name in BUILT_IN_OPTIONS:
        yield f"its option --{name} is built in and cannot be replaced; give yours another name"
    if not all(isinstance(text, str) for text in texts):
        yield f"its option {name!r} has a text or metavar that is not a string"


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
