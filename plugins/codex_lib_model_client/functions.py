"""Tools as functions, for APIs that have nothing else, and calls of these functions as calls of the tools."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from codex_framework.contract.protocol.items import CallItem, CustomToolCall, FunctionCall, LocalShellCall
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.models import ItemAdded, ItemDone, ModelEvent
from codex_framework.contract.roles.tool_specs import FreeformSpec, FunctionSpec, NativeSpec, ToolSpec
from codex_lib_model_client.tool_schemas import normalised_schema

__all__ = ["INPUT", "LOCAL_SHELL", "Projection", "call_events", "function_call", "function_name"]

INPUT = "input"
"""The only argument of a function that replaces a freeform tool."""

LOCAL_SHELL = "local_shell"

_SHELL_PARAMETERS = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments."},
        "working_directory": {"type": "string", "description": "The folder to run it in."},
        "timeout_ms": {"type": "integer", "description": "Time limit in milliseconds."},
    },
    "required": ["command"],
}


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def function_name(name: str) -> str:
    """Return a tool's name as a function: servers allow letters, digits, ``_`` and ``-`` only."""
    return _NOT_IN_NAMES.sub("_", name)


def function_call(call: CallItem) -> tuple[str, str]:
    """Return the name and the arguments of a tool's call as the call of its function. The arguments are always a JSON object."""
    match call:
        case FunctionCall(name=name, arguments=arguments, namespace=namespace):
            return function_name(f"{namespace or ''}{name}"), _object(arguments)
        case CustomToolCall(name=name, input=text):
            return function_name(name), encode_json({INPUT: text})
        case LocalShellCall(action=action):
            fields = {key: value for key, value in action.items() if key != "type" and value is not None}
            return LOCAL_SHELL, _object(encode_json(fields))


def _object(text: str) -> str:
    """Return arguments that are a JSON object: servers that put them into a template fail for others."""
    try:
        if isinstance(_parse_json(text or "{}"), dict):
            return text or "{}"
    except (ValueError, RecursionError):
        pass
    return encode_json({"invalid_arguments": text})


def _parse_json(text: str, *, strict: bool = True) -> Any:
    """Return a JSON value. Python also reads ``NaN`` and ``Infinity``, which are not JSON.

    Raises:
        ValueError, RecursionError: The text is not JSON.
    """
    return json.loads(text, strict=strict, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def call_events(item: CallItem) -> list[ModelEvent]:
    """Return the events of a call that is complete: it begins without its arguments, and ends."""
    match item:
        case FunctionCall():
            begun: CallItem = item.evolve(arguments="")
        case CustomToolCall():
            begun = item.evolve(input="")
        case LocalShellCall():
            begun = item
    return [ItemAdded(begun), ItemDone(item)]


class Projection:
    """The tools of a request as functions.

    Attributes:
        functions: The functions: ``name``, ``description``, ``parameters`` and possibly ``strict``. Tools that only a server could
            run are not among them.
    """

    def __init__(self, specs: tuple[ToolSpec, ...]) -> None:
        self.specs = specs
        self.functions: list[dict[str, Any]] = []
        self._specs: dict[str, ToolSpec] = {}
        for spec in specs:
            function = _function(spec)
            if function is None:
                continue
            name = function["name"]
            number = 1
            while function["name"] in self._specs:
                number += 1
                function["name"] = f"{name[:61]}_{number}"
            self._specs[function["name"]] = spec
            self.functions.append(function)

    @property
    def sent_specs(self) -> Sequence[ToolSpec]:
        """The tools in the order of their functions."""
        return list(self._specs.values())

    def call(self, name: str, arguments: str, call_id: str, place: str) -> CallItem:
        """Return the call of a tool for the call of its function.

        Args:
            place: A unique position of the call, for the id of its item.
        """
        spec = self._specs.get(name)
        match spec:
            case FreeformSpec():
                return CustomToolCall(spec.name, freeform_input(arguments), call_id, f"ctc_{place}", "completed")
            case NativeSpec() if action := _shell_action(arguments):
                return LocalShellCall(action, call_id, "completed", f"lsh_{place}")
            case _:
                known = name if spec is None else spec.name
                return FunctionCall(known, arguments or "{}", call_id, id=f"fc_{place}")


def freeform_input(arguments: str) -> str:
    """Return the text for a freeform tool from the arguments of its function.

    Models often write the text alone, give the argument another name, or break lines within the JSON string.
    """
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if isinstance(value.get(INPUT), str):
            return str(value[INPUT])
        texts = [text for text in value.values() if isinstance(text, str)]
        if len(texts) == 1:
            return texts[0]
    return arguments


def _function(spec: ToolSpec) -> dict[str, Any] | None:
    match spec:
        case FunctionSpec(name=name, description=description, parameters=parameters, strict=strict):
            schema, note = normalised_schema(parameters)
            described = f"{description}\n\n{note}".strip() if note else description
            function = {"name": function_name(name), "description": described, "parameters": schema}
            return {**function, "strict": True} if strict else function
        case FreeformSpec(name=name, description=description, format=form):
            text = f"{description}\n\nThe argument `{INPUT}` follows this {form.syntax} grammar:\n{form.definition}"
            parameters = {
                "type": "object",
                "properties": {
                    INPUT: {"type": "string", "description": "The whole text, as the grammar describes it."}
                },
                "required": [INPUT],
                "additionalProperties": False,
            }
            return {"name": function_name(name), "description": text.strip(), "parameters": parameters}
        case NativeSpec(type="local_shell"):
            return {"name": LOCAL_SHELL, "description": "Runs a command.", "parameters": _SHELL_PARAMETERS}
        case NativeSpec():
            return None


def _shell_action(arguments: str) -> dict[str, Any] | None:
    """Return the action of a ``local_shell`` call, if the arguments have a command."""
    try:
        value = _parse_json(arguments, strict=False)
    except (ValueError, RecursionError):
        return None
    command = value.get("command") if isinstance(value, dict) else None
    if isinstance(command, str) and command.strip():
        command = ["bash", "-lc", command]
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return None
    rest = {key: value[key] for key in ("working_directory", "timeout_ms") if value.get(key) is not None}
    return {"type": "exec", "command": command, **rest}
