"""Names of tools' arguments in the form that the API takes. It refuses a whole request because of one name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["ApiSchema", "api_schema"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names that arguments may have."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


class ApiSchema(NamedTuple):
    """A schema for the API.

    Attributes:
        names: The original names of arguments, by the API's names, if they differ.
    """

    schema: Mapping[str, Any]
    names: dict[str, str]


def api_schema(schema: Mapping[str, Any]) -> ApiSchema:
    """Return the normalised schema of a tool's arguments for the API."""
    names = _names(schema["properties"])
    if not names:
        return ApiSchema(schema, {})
    renamed = {**schema, "properties": {names.get(name, name): value for name, value in schema["properties"].items()}}
    if "required" in schema:
        renamed["required"] = [names.get(name, name) for name in schema["required"]]
    return ApiSchema(renamed, {new: old for old, new in names.items()})


def _names(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return names that the API accepts, for names that it does not accept."""
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
