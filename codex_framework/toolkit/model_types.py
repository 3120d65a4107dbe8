"""Types of tool arguments that pydantic describes and reads: its models, its own types, and its metadata in ``Annotated``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework.toolkit.argument_types import mismatch
from codex_framework.toolkit.bounds import KNOWN_BOUNDS

__all__ = ["Model", "dumped", "is_of_pydantic", "model_type"]

_HOOK = "__get_pydantic_core_schema__"


def is_of_pydantic(thing: object) -> bool:
    """Return whether pydantic alone knows what a class, or an object in ``Annotated``, means."""
    if hasattr(thing, _HOOK):
        return True
    if type(thing).__module__.partition(".")[0] != "pydantic":
        return False
    if type(thing).__name__ == "FieldInfo":
        return any(is_of_pydantic(part) for part in thing.metadata)  # type: ignore[attr-defined]  # it has it
    return not getattr(thing, "__dict__", {"": None}).keys() <= KNOWN_BOUNDS


def model_type(annotation: Any) -> Model:
    """Return the type of an annotation that pydantic understands.

    Raises:
        TypeError: Pydantic does not understand it, or is not installed; the message is a clause with the reason.
    """
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise TypeError("pydantic 2 is needed for it; install it with: pip install 'pydantic>=2'") from None
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter(annotation)
        return Model(adapter, adapter.json_schema())
    except PydanticUserError as error:
        raise TypeError(f"pydantic refuses it: {error.message}") from None


def dumped(value: object) -> Any:
    """Return the JSON data of a model of pydantic, or of another value that pydantic knows."""
    from pydantic import TypeAdapter

    return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)


class Model:
    """A type that pydantic describes and reads.

    Args:
        adapter: Pydantic's adapter of the type.
        schema: Its JSON Schema.
    """

    structured = True

    def __init__(self, adapter: Any, schema: Mapping[str, Any]) -> None:
        self._adapter = adapter
        self._schema = schema
        self._is_object = self._resolved(schema).get("type") == "object"

    @property
    def noun(self) -> str:
        """See :class:`ArgumentType`."""
        kind = self._resolved(self._schema).get("type", "value")
        return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"

    @property
    def nullable(self) -> bool:
        """Whether null is a valid value."""
        return self._may_be_null(self._schema)

    def schema(self, *, strict: bool) -> dict[str, Any]:
        """See :class:`ArgumentType`."""
        whole: dict[str, Any] = _untitled(self._schema)
        return self._strict(whole) if strict else whole

    def read(self, value: Any, where: str, problems: list[str]) -> Any:
        """See :class:`ArgumentType`."""
        from pydantic import ValidationError

        if self._is_object and not isinstance(value, Mapping):
            return mismatch(self, value, where, problems)
        try:
            return self._adapter.validate_json(json.dumps(self._without_nulls(value, self._schema)))
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_context=False):
                place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
                at = f"{where}{place}".removeprefix(".")
                problems.append(f"{at}: {problem['msg']}" if at else str(problem["msg"]))
            return None

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Follow the reference of a schema."""
        for _ in range(len(self._schema.get("$defs", ())) + 1):
            if "$ref" not in schema:
                break
            schema = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def _may_be_null(self, schema: Mapping[str, Any]) -> bool:
        schema = self._resolved(schema)
        return (
            not schema.keys() & {"type", "anyOf", "oneOf", "allOf", "enum", "const"}
            or schema.get("type") == "null"
            or any(self._may_be_null(part) for part in schema.get("anyOf", ()))
        )

    def _without_nulls(self, value: Any, schema: Any) -> Any:
        """Leave out properties that are null, if they are optional and cannot be null: so the strict subset asks for a default."""
        schema = self._resolved(schema) if isinstance(schema, Mapping) else {}
        if isinstance(value, list):
            return [self._without_nulls(part, schema.get("items", {})) for part in value]
        if not isinstance(value, Mapping):
            return value
        for choice in schema.get("anyOf", ()):
            if self._resolved(choice).get("type") == "object":
                return self._without_nulls(value, choice)
        properties, required = schema.get("properties", {}), schema.get("required", ())
        return {
            key: self._without_nulls(part, properties.get(key, schema.get("additionalProperties", {})))
            for key, part in value.items()
            if part is not None or key in required or key not in properties or self._may_be_null(properties[key])
        }

    def _strict(self, schema: Any) -> Any:
        """Return a schema of the strict subset: objects are closed, and every property is required and may be null if it was not.

        Raises:
            TypeError: The strict subset cannot express it.
        """
        if isinstance(schema, list):
            return [self._strict(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "oneOf" in schema:
            schema = {**schema, "anyOf": schema["oneOf"]}
        if "$ref" in schema and schema.keys() & _BESIDE:
            schema = {"anyOf": [{"$ref": schema["$ref"]}], **{key: schema[key] for key in _BESIDE if key in schema}}
        if schema.get("type") == "object" and schema.get("additionalProperties"):
            raise TypeError("an object with free keys cannot be described in strict mode")
        if schema.get("type") == "object":
            properties, required = schema.get("properties", {}), schema.get("required", ())
            closed = {
                name: self._strict(part)
                if name in required or self._may_be_null(part)
                else _or_null(self._strict(part))
                for name, part in properties.items()
            }
            schema = {
                **schema,
                "properties": closed,
                "required": list(properties),
                "additionalProperties": False,
            }
        rest = {key: self._strict(part) for key, part in schema.items() if key in ("items", "anyOf", "prefixItems")}
        if "$defs" in schema:
            rest["$defs"] = {name: self._strict(part) for name, part in schema["$defs"].items()}
        return {key: rest.get(key, part) for key, part in schema.items() if key not in _NOT_STRICT}


_BESIDE = frozenset({"description", "$defs"})
"""Keywords that may stand beside a reference, but not in the strict subset."""

_NOT_STRICT = ("default", "minLength", "maxLength", "uniqueItems", "title", "oneOf", "discriminator")


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    description = {"description": schema.pop("description")} if "description" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **description}


def _untitled(schema: Any, *, names: bool = False) -> Any:
    """Leave out the titles that pydantic makes of the names, which tell a model nothing."""
    if isinstance(schema, list):
        return [_untitled(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: part
        if key in ("enum", "const", "default", "examples") and not names
        else _untitled(part, names=_is_by_name(key, names))
        for key, part in schema.items()
        if key != "title" or names
    }


def _is_by_name(key: str, within: bool) -> bool:  # noqa: FBT001
    return not within and key in ("properties", "$defs", "patternProperties")
