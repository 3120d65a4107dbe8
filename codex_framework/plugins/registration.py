"""Looks at a tool once, when it is registered: its form is checked, and its optional abilities are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from codex_framework.contract.protocol.events import Approval, EventMsg
from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.tool_specs import (
    TOOL_NAME,
    ToolSpec,
    schema_problems,
    spec_problems,
)
from codex_framework.contract.roles.tools import (
    Aliased,
    BringsPrograms,
    Offered,
    ParallelSafe,
    StreamsArguments,
    SuitsModel,
    Tool,
)
from codex_framework.contract.value import Value
from codex_framework.plugins.validation import role_problems

__all__ = ["TOOL_NAME", "RegisteredTool", "registered_tool", "schema_problems", "spec_problems"]


_ABILITIES: Mapping[str, Any] = {
    "aliases": Aliased,
    "offered": Offered,
    "parallel_safe": ParallelSafe,
    "preview": StreamsArguments,
    "programs": BringsPrograms,
    "spec_for": SuitsModel,
}
"""The optional abilities, by the member that shows them."""


class RegisteredTool(Value, kw_only=True):
    """A tool with what is known of it.

    Attributes:
        plugin: The name of the plugin that offers it.
        spec: Read once.
        parallel: Whether its calls may overlap with those of other such tools.
        aliases: Other names it answers to.
        offered: Whether to offer it in a turn; None: always.
        preview: Takes input that is still being written; None: it does not care.
        programs: Commands it puts on the ``PATH`` of what the model runs.
        spec_for: Its form in a turn; None: ``spec``.
        exposure: ``direct``, ``deferred`` or ``hidden``.
        tells_clients: Whether it tells clients of its calls itself.
        needs_approval: What a call asks to be allowed; None never asks.
    """

    tool: Tool
    plugin: str
    spec: ToolSpec
    parallel: bool = False
    aliases: tuple[str, ...] = ()
    offered: Callable[[TurnFacts], bool] | None = None
    preview: Callable[[str, str], EventMsg | None] | None = None
    programs: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    spec_for: Callable[[TurnFacts], ToolSpec] | None = None
    exposure: str = "direct"
    tells_clients: bool = False
    needs_approval: Callable[[ToolCall, TurnFacts], Approval | None] | None = None


def registered_tool(plugin: str, tool: Any) -> tuple[RegisteredTool | None, list[str]]:
    """The tool, or every reason why it cannot be used."""
    problems = role_problems(tool, Tool)
    if problems:
        return None, problems
    problems = list(spec_problems(tool.spec))
    able = [name for name in _ABILITIES if _has(tool, name)]
    for name in able:
        problems += role_problems(tool, _ABILITIES[name])
    if problems:
        return None, problems
    try:
        registered = RegisteredTool(
            tool=tool,
            plugin=plugin,
            spec=tool.spec,
            parallel="parallel_safe" in able and bool(tool.parallel_safe),
            aliases=tuple(tool.aliases) if "aliases" in able else (),
            offered=tool.offered if "offered" in able else None,
            preview=tool.preview if "preview" in able else None,
            programs=dict(tool.programs) if "programs" in able else {},
            spec_for=tool.spec_for if "spec_for" in able else None,
            exposure=getattr(tool, "exposure", "direct"),
            tells_clients=bool(getattr(tool, "tells_clients", False)),
            needs_approval=getattr(tool, "needs_approval", None),
        )
    except (TypeError, ValueError) as error:
        return None, [f"its abilities cannot be read: {error}"]
    problems = list(_ability_problems(registered))
    return (None, problems) if problems else (registered, [])


def _has(tool: Any, name: str) -> bool:
    try:
        return hasattr(tool, name)
    except Exception:  # a property that raises is there; the check of its role tells what is wrong with it
        return True


def _ability_problems(registered: RegisteredTool) -> Iterator[str]:
    for alias in registered.aliases:
        if not isinstance(alias, str) or not TOOL_NAME.match(alias):
            yield f"its alias {alias!r} is no tool name: 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'"
    for name, argv in registered.programs.items():
        if not isinstance(name, str) or not name or "/" in name or not _words(argv):
            yield f"its program {name!r} does not stand for a list of words (with a name that is no path)"


def _words(argv: object) -> bool:
    return isinstance(argv, (list, tuple)) and bool(argv) and all(isinstance(word, str) for word in argv)
