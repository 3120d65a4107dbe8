"""The class of agents, with functions as tools and typed outputs: ``from codex_framework import Agent``.

The kernel knows tools and schemas only. This module tells agents how to make these of functions and types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from codex_framework.contract.roles.agents import Agent, Descriptions

__all__ = ["Agent"]

_WRAPPED = "value"
"""The property that contains an output that is not an object, because providers accept only schemas of objects."""


class _Descriptions(Descriptions):
    """The descriptions of functions and types, made with the front end of ``@tool``."""

    def tool(self, function: Callable[..., Any]) -> Any:
        """Return a tool that calls a function."""
        from codex_framework.toolkit.tool import tool

        return tool(function)

    def output(self, kind: Any, where: str) -> tuple[Mapping[str, Any], Callable[[str], Any]]:
        """Return the JSON Schema of a type, and a function that reads a JSON text."""
        from codex_framework.toolkit.json_schemas import without_root_reference
        from codex_framework.toolkit.signature import argument_type

        form = argument_type(kind, where)
        try:
            schema = form.schema(strict=True)
        except TypeError:  # the strict subset cannot say it
            schema = form.schema(strict=False)
        schema = without_root_reference(schema)
        wrapped = schema.get("type") != "object"

        def read(text: str) -> Any:
            from codex_framework.toolkit.arguments import read_json

            if wrapped:
                raw = json.loads(text)
                if isinstance(raw, dict) and set(raw) == {_WRAPPED}:
                    text = json.dumps(raw[_WRAPPED])
            return read_json(text, form.row, "the output")

        return _object_of(schema) if wrapped else schema, read


def _object_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {_WRAPPED: {key: part for key, part in schema.items() if key != "$defs"}},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **definitions,
    }


Agent.descriptions = _Descriptions()
