"""JSON schemas of tools in the form that the API takes. It refuses a whole request because of one tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from codex_framework.contract.protocol.wire import encode_json

__all__ = ["Adapted", "adapted"]

_COMBINED = ("allOf", "anyOf", "oneOf")
"""What the API refuses at the top level."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names that arguments may have."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


class Adapted(NamedTuple):
    """A schema for the API.

    Attributes:
        note: What the schema can no longer say, for the description of the tool. Empty if it says everything.
        names: The arguments' own names, by those that the API takes, as far as they differ.
    """

    schema: dict[str, Any]
    note: str
    names: dict[str, str]


def adapted(parameters: Mapping[str, Any]) -> Adapted:
    """Return the schema of a tool's arguments for the API."""
    schema = {key: value for key, value in parameters.items() if key not in _COMBINED}
    schema["type"] = "object"
    combined = {key: parameters[key] for key in _COMBINED if parameters.get(key)}
    properties = _mapping(schema.get("properties"))
    for branches in combined.values():
        for branch in branches if isinstance(branches, (list, tuple)) else ():
            properties = {**_mapping(_mapping(branch).get("properties")), **properties}
    note = f"The arguments must also follow this JSON schema:\n{encode_json(combined)}" if combined else ""
    names = _names(properties)
    if properties or "properties" in schema:
        schema["properties"] = {names.get(name, name): value for name, value in properties.items()}
    required = schema.pop("required", None)
    if isinstance(required, (list, tuple)):
        schema["required"] = [names.get(name, name) for name in required]
    return Adapted(schema, note, {new: old for old, new in names.items()})


def _names(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return names that the API takes, for those that it does not take."""
    names: dict[str, str] = {}
    taken = {name for name in properties if _NAME.fullmatch(name)}
    for name in properties:
        if name in taken:
            continue
        short = new = _NOT_IN_NAMES.sub("_", name)[:60] or "_"
        number = 1
        while new in taken:
            number += 1
            new = f"{short}_{number}"
        taken.add(new)
        names[name] = new
    return names


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
