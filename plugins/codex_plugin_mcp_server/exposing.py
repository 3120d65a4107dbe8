"""The tools of plugins that are offered over the protocol: their selection and form for each client."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from codex_framework import CodexError, ConfigError, FreeformSpec, FunctionSpec, Kernel, ToolError, ToolSpec
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.suggestions import did_you_mean
from codex_plugin_mcp_server.link import Link
from codex_plugin_mcp_server.results import called, error_text, failure
from codex_plugin_mcp_server.runs import Run
from codex_plugin_mcp_server.toolbox import Contexts, Toolbox

__all__ = ["TEXT", "Exposing"]

TEXT = "input"
"""The field with the text for a freeform tool."""

_MOST = 32
"""The maximum number of HTTP sessions that keep their thread for tools. Beyond that, the thread of the longest idle session is
closed.
"""

_HINTS = {
    "title": str,
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
}
"""The annotations of the protocol."""


class Exposing:
    """The offered tools.

    Args:
        contexts: A component of the kernel.
        patterns: Patterns of names of tools and of plugins.
        config: Keys of the configuration for the threads in which tools are called.
        reserved: Names that other tools of the server have.
    """

    def __init__(
        self,
        kernel: Kernel,
        contexts: Contexts,
        *,
        patterns: Sequence[str],
        config: Mapping[str, Any],
        reserved: Sequence[str],
    ) -> None:
        self._kernel = kernel
        self._contexts = contexts
        self._patterns = patterns
        self._config = config
        self._reserved = frozenset(reserved)
        self._boxes: OrderedDict[str, Toolbox] = OrderedDict()
        self._opening = asyncio.Lock()
        self._names: frozenset[str] = frozenset()
        self._freeform: frozenset[str] = frozenset()

    async def check(self) -> None:
        """Check that each pattern matches a tool.

        Raises:
            CodexError: One does not, a name is taken, or the configuration is invalid.
        """
        specs = await self._specs()
        for pattern in self._patterns:
            if not any(self._matches(spec.name, pattern) for spec in specs):
                names = {spec.name for spec in specs} | {self._plugin(spec.name) for spec in specs}
                raise ConfigError(
                    f"no tool is named {pattern!r}, and no plugin with tools",
                    path="--expose-tools",
                    slug="serve-mcp",
                    hint=f"{did_you_mean(pattern, names)}The tools are {', '.join(spec.name for spec in specs)}.",
                )
        taken = self._reserved & {spec.name for spec in specs if self._is_offered(spec)}
        if taken:
            raise ConfigError(
                f"a plugin's tool is named {', '.join(sorted(taken))}, as a tool of the server",
                path="--expose-tools",
                slug="serve-mcp",
                hint="Add --tools-only, or leave this tool out.",
            )

    async def tools(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools that a model would be offered now."""
        specs = [spec for spec in await self._specs() if self._is_offered(spec)]
        return [self._definition(spec) for spec in specs]

    async def _specs(self) -> Sequence[ToolSpec]:
        box = await self._box("")
        specs = await box.specs()
        self._names = frozenset(spec.name for spec in specs if self._is_offered(spec))
        self._freeform = frozenset(spec.name for spec in specs if isinstance(spec, FreeformSpec))
        return specs

    def offers(self, name: str) -> bool:
        """Return whether a tool is offered, as of the last list."""
        return name in self._names

    def _is_offered(self, spec: ToolSpec) -> bool:
        is_callable = isinstance(spec, (FunctionSpec, FreeformSpec))
        return is_callable and any(self._matches(spec.name, pattern) for pattern in self._patterns)

    def _matches(self, name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or self._plugin(name) == pattern

    def _plugin(self, name: str) -> str:
        registered = self._kernel.registry.tools.get(name)
        return "" if registered is None else registered.plugin

    def _definition(self, spec: ToolSpec) -> dict[str, Any]:
        assert isinstance(spec, (FunctionSpec, FreeformSpec))
        definition: dict[str, Any] = {"name": spec.name, "description": spec.description, "inputSchema": _schema(spec)}
        registered = self._kernel.registry.tools.get(spec.name)
        given = getattr(None if registered is None else registered.tool, "annotations", None)
        if isinstance(given, Mapping):
            hints = {name: given.get(name) for name, kind in _HINTS.items() if isinstance(given.get(name), kind)}
            definition.update({"annotations": hints} if hints else {})
        return definition

    async def call(self, name: str, arguments: Mapping[str, Any], run: Run, link: Link) -> Mapping[str, Any]:
        """Call a tool in the thread of the client."""
        try:
            text = _text_of(name, arguments) if name in self._freeform else arguments
            box = await self._box(link.session_id or "") if link.is_lasting else await self._open()
            try:
                return called(await box.call(name, text, run))
            finally:
                if not link.is_lasting:
                    await box.aclose()
        except CodexError as error:
            return failure(error_text(error))
        except (TypeError, ValueError) as error:
            return failure(f"the output of {name} cannot be sent: {error}")

    async def _box(self, session_id: str) -> Toolbox:
        async with self._opening:
            box = self._boxes.get(session_id)
            if box is None:
                box = self._boxes[session_id] = await self._open()
            self._boxes.move_to_end(session_id)
            idle = [key for key, other in self._boxes.items() if not other.busy and key not in ("", session_id)]
            old = [self._boxes.pop(key) for key in idle[: max(0, len(self._boxes) - _MOST)]]
        for other in old:
            await other.aclose()
        return box

    async def _open(self) -> Toolbox:
        return await Toolbox.open(self._kernel, self._contexts, self._config)

    async def aclose(self) -> None:
        """Close all threads."""
        for box in self._boxes.values():
            await box.aclose()
        self._boxes.clear()


def _schema(spec: FunctionSpec | FreeformSpec) -> Mapping[str, Any]:
    if isinstance(spec, FunctionSpec):
        schema: Mapping[str, Any] = to_wire(spec.parameters)
        return schema
    description = f"The text, which follows this {spec.format.syntax} grammar:\n{spec.format.definition}"
    field = {"type": "string", "description": description}
    return {"type": "object", "properties": {TEXT: field}, "required": [TEXT], "additionalProperties": False}


def _text_of(name: str, arguments: Mapping[str, Any]) -> str:
    text = arguments.get(TEXT)
    if len(arguments) != 1 or not isinstance(text, str):
        raise ToolError(f"{name} takes one field, {TEXT!r}, with a text")
    return text
