"""Results of tools as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.toolkit.model_types import is_of_pydantic, to_json_data
from codex_framework.toolkit.text_types import to_text

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Return JSON data for a value that JSON does not know. Its parts may be such values again.

    Raises:
        TypeError: The value has no form in JSON.
    """
    text = to_text(value)
    if text is not None:
        return text
    if hasattr(value, "__dataclass_fields__"):
        import dataclasses

        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if is_of_pydantic(type(value)):
        return to_json_data(value)
    from codex_framework.contract.protocol.wire import to_wire

    try:
        return to_wire(value)
    except TypeError as error:  # a part is not a value of the protocol
        return _parts(value, error)


def _parts(value: Any, error: TypeError) -> Any:
    from codex_framework.contract.protocol.variants import wire_fields

    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if not hasattr(type(value), "__attrs_attrs__"):
        raise error
    fields = ((word, getattr(value, name)) for name, word in wire_fields(type(value)))  # type: ignore[arg-type]  # classes are hashable
    return {word: part for word, part in fields if part is not None}
