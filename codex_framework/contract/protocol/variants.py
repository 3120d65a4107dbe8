"""The tags of unions and the JSON names of fields, shared by reading and writing."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from codex_framework.contract.value import Value, fields_of

__all__ = ["variants_of", "wire_fields"]


def variants_of(union: Any) -> dict[str, type[Any]]:
    """Return the classes of a union by their tag."""
    return {kind.type: kind for kind in get_args(union) if getattr(kind, "type", "")}


@cache
def wire_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """Return the fields of a class that are in its JSON form, each with its name there."""
    fields = fields_of(kind) if isinstance(kind, type) and issubclass(kind, Value) else kind.__attrs_attrs__
    words = ((field.name, field.metadata.get("wire", True)) for field in fields)
    return tuple((name, name if word is True else word) for name, word in words if word is not False)
