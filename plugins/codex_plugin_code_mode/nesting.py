"""The tools that scripts of a turn can call, and their description for the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from codex_framework import FreeformFormat, FreeformSpec, FunctionSpec, ToolSpec, TurnFacts
from codex_framework.contract.value import Value, field
from codex_plugin_code_mode.declarations import declaration, identifier
from codex_plugin_code_mode.mode import ONLY, mode_of
from codex_plugin_code_mode.texts import EXEC, GRAMMAR, MORE_TOOLS

__all__ = ["EXEC_NAME", "WAIT_NAME", "Nesting", "Nestings"]

EXEC_NAME = "exec"
WAIT_NAME = "wait"
_SEARCH = "tool_search"
"""The names of the wire: scripts find deferred tools in ``ALL_TOOLS``, and need no search."""

_Nested: TypeAlias = FunctionSpec | FreeformSpec


class Nesting(Value):
    """The tools that scripts can call.

    Attributes:
        tools: Their specs, by the name in JavaScript, in the order of names.
        deferred: Names of tools that the description of ``exec`` leaves out.
    """

    tools: Mapping[str, _Nested] = field(factory=dict)
    deferred: frozenset[str] = frozenset()

    @cached_property
    def for_engine(self) -> dict[str, Any]:
        """The tools in the form for the program that runs scripts."""
        kinds = [
            [name, "text" if isinstance(spec, FreeformSpec) else "object"] for name, spec in sorted(self.tools.items())
        ]
        shown = [{"name": name, "description": _describe_spec(spec)} for name, spec in sorted(self.tools.items())]
        return {"kinds": kinds, "all": json.dumps(shown, default=dict)}

    @cached_property
    def described(self) -> str:
        """The sections of all tools that are not deferred."""
        sections = [
            f"### `{name}`\n{_describe_spec(spec)}"
            for name, spec in sorted(self.tools.items())
            if name not in self.deferred
        ]
        return "\n\n".join(sections)


class Nestings:
    """The nested tools of a kernel's threads."""

    def __init__(self) -> None:
        self._by_thread: dict[str, Nesting] = {}
        self._kept: tuple[Any, tuple[ToolSpec, ...], Nesting] | None = None

    def of(self, thread_id: str) -> Nesting:
        """Return the tools for scripts that a thread starts now."""
        return self._by_thread.get(thread_id, Nesting())

    def forget(self, thread_id: str) -> None:
        """Forget a thread that has ended."""
        self._by_thread.pop(thread_id, None)

    def arranged(self, specs: Sequence[ToolSpec], turn: TurnFacts) -> Sequence[ToolSpec]:
        """Return the specs that the model sees, and note what its scripts can call."""
        mode = mode_of(turn)
        if mode is None:
            return specs
        deferred = tuple(tool.spec for tool in turn.deferred_tools if not tool.offered)
        given = (mode, tuple(specs), deferred)
        if self._kept is None or self._kept[0] != given:
            self._kept = given, *_arrange_specs(mode, specs, deferred)
        _, arranged, nesting = self._kept
        self._by_thread[turn.thread_id] = nesting
        return arranged


def _arrange_specs(
    mode: str, specs: Sequence[ToolSpec], deferred: Sequence[ToolSpec]
) -> tuple[tuple[ToolSpec, ...], Nesting]:
    nested = [spec for spec in specs if _is_nested(spec)]
    hidden = [spec for spec in deferred if _is_nested(spec)]
    tools: dict[str, _Nested] = {}
    for spec in (*nested, *hidden):
        if isinstance(spec, (FunctionSpec, FreeformSpec)):  # as _is_nested says
            tools.setdefault(identifier(spec.name), spec)
    shown = {identifier(spec.name) for spec in nested}
    nesting = Nesting(tools, frozenset(tools) - shown)
    own = {spec.name: spec for spec in specs if spec.name in (EXEC_NAME, WAIT_NAME)}
    others = [spec for spec in specs if spec.name not in own and spec.name != _SEARCH]
    if mode == ONLY:
        own[EXEC_NAME] = _exec_spec(nesting, with_tools=True)
        return (*own.values(), *(spec for spec in others if not _is_nested(spec))), nesting
    own[EXEC_NAME] = _exec_spec(nesting, with_tools=False)
    searches = [spec for spec in specs if spec.name == _SEARCH]
    return (*own.values(), *map(_with_declaration, others), *searches), nesting


def _is_nested(spec: ToolSpec) -> bool:
    if spec.name in (EXEC_NAME, WAIT_NAME, _SEARCH):
        return False
    return isinstance(spec, FreeformSpec) or (isinstance(spec, FunctionSpec) and not spec.model_only)


def _with_declaration(spec: ToolSpec) -> ToolSpec:
    if isinstance(spec, (FunctionSpec, FreeformSpec)) and _is_nested(spec):
        return spec.evolve(description=_describe_spec(spec))
    return spec


def _describe_spec(spec: _Nested) -> str:
    return f"{spec.description.strip()}\n\nexec tool declaration:\n```ts\n{declaration(spec)}\n```"


def _exec_spec(nesting: Nesting, *, with_tools: bool) -> FreeformSpec:
    parts = [EXEC, MORE_TOOLS if nesting.deferred else "", nesting.described if with_tools else ""]
    return FreeformSpec(EXEC_NAME, "\n\n".join(filter(None, parts)), FreeformFormat("lark", GRAMMAR))
