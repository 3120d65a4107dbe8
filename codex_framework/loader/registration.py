"""Inspects a tool once, at registration: checks its form, and finds the methods that it overrides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from codex_framework.contract.protocol.events import Approval, EventMsg
from codex_framework.contract.roles.calls import CallView, ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.contract.roles.tool_specs import (
    FunctionSpec,
    ToolSpec,
    is_tool_name,
    schema_problems,
    spec_problems,
)
from codex_framework.contract.roles.tools import Tool, ToolContext
from codex_framework.contract.value import Value, field
from codex_framework.loader.role_checks import role_problems
from codex_framework.toolkit.faults import Label
from codex_framework.toolkit.roles import overrides

__all__ = ["RegisteredTool", "registered_tool", "schema_problems", "spec_problems"]


_EXPOSURES = ("direct", "deferred", "hidden")


class RegisteredTool(Value, kw_only=True):
    """A tool with its properties. A method is None if the tool does not override it.

    Attributes:
        plugin: The name of the plugin that offers it.
        spec: Read once.
        parallel: Whether its calls may overlap with calls of other such tools.
        aliases: Other names by which it can be called.
        programs: Programs that it adds to the ``PATH`` of the model's commands.
        exposure: ``direct``, ``deferred`` or ``hidden``.
        keywords, source: For a tool search.
        tells_clients: Whether it informs clients about its calls itself.
        reads: The facts on which ``offered`` and ``spec_for`` depend. None if the tool does not say so.
        offered, spec_for, arrange, needs_approval, allow_always, refused, view, with_arguments, preview, shown: As in
            :class:`~codex_framework.contract.roles.tools.Tool`.
    """

    tool: Tool
    plugin: str
    spec: ToolSpec
    parallel: bool = False
    aliases: tuple[str, ...] = ()
    programs: Mapping[str, Sequence[str]] = field(factory=dict)
    exposure: str = "direct"
    keywords: str = ""
    source: str = ""
    tells_clients: bool = False
    reads: frozenset[str] | None = None
    offered: Callable[[TurnFacts], bool] | None = None
    spec_for: Callable[[TurnFacts], ToolSpec] | None = None
    arrange: Callable[[Sequence[ToolSpec], TurnFacts], Sequence[ToolSpec]] | None = None
    needs_approval: Callable[[ToolCall, TurnFacts], Approval | None] | None = None
    allow_always: Callable[[ToolCall, TurnContext], Awaitable[None]] | None = None
    refused: Callable[[ToolCall, ToolContext, str], None] | None = None
    view: Callable[[ToolCall], CallView | None] | None = None
    with_arguments: Callable[[ToolCall, Mapping[str, Any]], ToolCall] | None = None
    preview: Callable[[str, str], EventMsg | None] | None = None
    shown: Callable[[Mapping[str, Any], TurnContext], Awaitable[Mapping[str, Any]]] | None = None

    @cached_property
    def label(self) -> Label:
        """The name of the tool and of its plugin, for messages."""
        return Label("tool", self.spec.name, self.plugin)


_METHODS = """
    offered spec_for arrange needs_approval allow_always refused view with_arguments preview shown
""".split()  # noqa: SIM905


def registered_tool(plugin: str, tool: Any, *, is_checked: bool = False) -> tuple[RegisteredTool | None, list[str]]:
    """Return the registered tool, or all reasons why it cannot be used.

    Args:
        is_checked: Whether the tool is known to fulfil its role.
    """
    problems = [] if is_checked else role_problems(tool, Tool) or list(spec_problems(tool.spec))
    if problems:
        return None, problems
    try:
        registered = RegisteredTool(
            tool=tool,
            plugin=plugin,
            spec=tool.spec,
            parallel=bool(getattr(tool, "parallel_safe", Tool.parallel_safe)),
            aliases=(*tuple(getattr(tool, "aliases", Tool.aliases)), *_joined_name(tool.spec)),
            programs=dict(getattr(tool, "programs", Tool.programs)),
            exposure=getattr(tool, "exposure", Tool.exposure),
            keywords=getattr(tool, "keywords", Tool.keywords),
            source=getattr(tool, "source", Tool.source),
            tells_clients=bool(getattr(tool, "tells_clients", Tool.tells_clients)),
            reads=getattr(tool, "reads", Tool.reads),
            **{method: getattr(tool, method) for method in _METHODS if overrides(tool, Tool, method)},
        )
    except (TypeError, ValueError) as error:
        return None, [f"its members cannot be read: {error}"]
    problems = list(_member_problems(registered))
    return (None, problems) if problems else (registered, [])


def _joined_name(spec: ToolSpec) -> tuple[str, ...]:
    """Return the name by which a model calls a tool that it was offered in a group."""
    joined = spec.joined_name if isinstance(spec, FunctionSpec) else None
    return () if joined is None else (joined,)


def _member_problems(registered: RegisteredTool) -> Iterator[str]:
    for alias in registered.aliases:
        if not isinstance(alias, str) or not is_tool_name(alias):
            yield f"its alias {alias!r} is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'"
    if registered.exposure not in _EXPOSURES:
        yield f"its exposure is {registered.exposure!r}, not one of {', '.join(_EXPOSURES)}"
    for member in ("keywords", "source"):
        text: object = getattr(registered, member)
        if not isinstance(text, str):
            yield f"its {member} is {type(text).__name__}, not a string"
    reads: object = registered.reads
    if reads is not None and not (isinstance(reads, (frozenset, set)) and reads <= TurnFacts.__annotations__.keys()):
        yield f"its reads is {reads!r}, not a set of names of facts: {', '.join(TurnFacts.__annotations__)}"
    for name, argv in registered.programs.items():
        if not isinstance(name, str) or not name or "/" in name or not _words(argv):
            yield f"its program {name!r} must have a name without slashes and a non-empty list of strings as its value"


def _words(argv: object) -> bool:
    return isinstance(argv, (list, tuple)) and bool(argv) and all(isinstance(word, str) for word in argv)
