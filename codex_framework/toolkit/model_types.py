"""Types of tool arguments that pydantic describes and reads: its models, its own types, and its metadata in ``Annotated``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework.toolkit.arguments import Argument, ConversionError
from codex_framework.toolkit.bounds import KNOWN_BOUNDS
from codex_framework.toolkit.json_schemas import allows_null

__all__ = ["is_of_pydantic", "model_row", "to_json_data"]

_HOOK = "__get_pydantic_core_schema__"


def is_of_pydantic(thing: object) -> bool:
    """Return whether only pydantic can interpret a class, or an object in ``Annotated``."""
    if hasattr(thing, _HOOK):
        return True
    if type(thing).__module__.partition(".")[0] != "pydantic":
        return False
    if type(thing).__name__ == "FieldInfo":
        return any(is_of_pydantic(part) for part in thing.metadata)  # type: ignore[attr-defined]  # it has it
    return not getattr(thing, "__dict__", {"": None}).keys() <= KNOWN_BOUNDS


def model_row(annotation: Any) -> Argument:
    """Return the row of an annotation that pydantic understands.

    Raises:
        TypeError: Pydantic does not understand it, or is not installed; the message is a clause with the reason.
    """
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise TypeError("this requires pydantic 2; install it with: pip install 'pydantic>=2'") from None
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter(annotation)
        schema = _drop_titles(adapter.json_schema())
    except PydanticUserError as error:
        raise TypeError(f"pydantic refuses it: {error.message}") from None
    return Argument("any", schema=schema, nullable=allows_null(schema), convert=_Reader(adapter, schema))


def to_json_data(value: object) -> Any:
    """Return the JSON data of a model of pydantic, or of another value that pydantic knows."""
    from pydantic import TypeAdapter

    return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)


class _Reader:
    """Converts JSON data to the value of a type, as pydantic does.

    Args:
        adapter: Pydantic's adapter of the type.
        schema: Its JSON Schema.
    """

    def __init__(self, adapter: Any, schema: Mapping[str, Any]) -> None:
        self._adapter = adapter
        self._schema = schema

    def __call__(self, value: Any) -> Any:
        """Convert a value.

        Raises:
            ConversionError: Pydantic refuses it.
        """
        from pydantic import ValidationError

        try:
            return self._adapter.validate_json(json.dumps(self._without_nulls(value, self._schema)))
        except ValidationError as error:
            problems = [
                (
                    "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"]),
                    str(found["msg"]),
                )
                for found in error.errors(include_url=False, include_context=False)
            ]
        raise ConversionError(problems)

    def _follow_reference(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Follow the reference of a schema."""
        for _ in range(len(self._schema.get("$defs", ())) + 1):
            if "$ref" not in schema:
                break
            schema = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def _without_nulls(self, value: Any, schema: Any) -> Any:
        """Leave out properties that are null, if they are optional and cannot be null: so the strict subset asks for a default."""
        schema = self._follow_reference(schema) if isinstance(schema, Mapping) else {}
        if isinstance(value, list):
            return [self._without_nulls(part, schema.get("items", {})) for part in value]
        if not isinstance(value, Mapping):
            return value
        for choice in schema.get("anyOf", ()):
            if self._follow_reference(choice).get("type") == "object":
                return self._without_nulls(value, choice)
        properties, required = schema.get("properties", {}), schema.get("required", ())
        definitions = self._schema.get("$defs", {})
        return {
            key: self._without_nulls(part, properties.get(key, schema.get("additionalProperties", {})))
            for key, part in value.items()
            if part is not None or key in required or key not in properties or allows_null(properties[key], definitions)
        }


def _drop_titles(schema: Any, *, names: bool = False) -> Any:
    """Leave out the titles that pydantic makes of the names, which tell a model nothing."""
    if isinstance(schema, list):
        return [_drop_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: part
        if key in ("enum", "const", "default", "examples") and not names
        else _drop_titles(part, names=_is_by_name(key, names))
        for key, part in schema.items()
        if key != "title" or names
    }


def _is_by_name(key: str, within: bool) -> bool:  # noqa: FBT001
    return not within and key in ("properties", "$defs", "patternProperties")
