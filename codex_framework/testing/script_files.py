"""Script files: replies of a model, written by hand as TOML or JSON.

    repeat_last = false

    [[responses]]
    output = [{ reasoning = "I look first." }, { call = "exec_command", arguments = { cmd = "ls" } }]

    [[responses]]
    say = "Done."
    deltas = 4

A response is a text, or a table: its ``output`` is a list of texts and tables, or it is itself such a table (``say``,
``reasoning``, ``call`` with ``arguments``, ``custom_call`` with ``input``, ``local_shell``, or an item in wire form, with
``type``). The table can also contain fields of :class:`~codex_framework.testing.scripted.Reply` and
:class:`~codex_framework.testing.scripted.Fault`, times in milliseconds, and ``repeat = n``. A JSON file may be the list of
responses alone.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import CodexError, ConfigError, ModelError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
)
from codex_framework.contract.protocol.wire import read, read_item
from codex_framework.testing.scripted import Fault, Reply, Script

__all__ = ["read_script"]


def read_script(path: Path) -> Script:
    """Return the script in a file.

    Raises:
        ConfigError: The file cannot be read, or is not a script; the fact names the response and its problem.
    """
    try:
        text = path.read_text("utf-8")
        value = json.loads(text) if path.suffix == ".json" else _toml(text)
    except (OSError, ValueError) as error:
        hint = "Write a TOML file with [[responses]] tables, or a JSON list."
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"the script {path} cannot be read: {reason}", path=str(path), hint=hint) from error
    table = {"responses": value} if isinstance(value, list) else value
    responses = table.get("responses")
    if not isinstance(responses, list) or set(table) - {"responses", "repeat_last"}:
        hint = "Write a list `responses`, and nothing else but `repeat_last`."
        raise ConfigError(f"{path} is not a script of responses", path=str(path), hint=hint)
    replies: list[Reply] = []
    for number, response in enumerate(responses, 1):
        try:
            replies.extend(_replies(response))
        except (ValueError, TypeError, CodexError) as error:
            fact = f"{path}: response {number}: {error}"
            hint = "See the module codex_framework.testing.script_files for the format of a response."
            raise ConfigError(fact, path=str(path), key=f"responses[{number - 1}]", hint=hint) from error
    return Script(replies, repeat_last=bool(table.get("repeat_last", False)))


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _replies(response: Any) -> list[Reply]:
    if isinstance(response, str):
        return [Reply(items=(_message(response),))]
    if not isinstance(response, Mapping):
        raise TypeError(f"a response must be a string or a table, not {response!r}")
    table = dict(response)
    repeat = table.pop("repeat", 1)
    if type(repeat) is not int or repeat < 1:
        raise ValueError(f"`repeat` is {repeat!r}, not a number from 1")
    settings = {key: table.pop(key) for key in _SETTINGS if key in table}
    fault = {key: table.pop(key) for key in _FAULTS if key in table}
    output = table.pop("output", None)
    if output is not None and table:
        raise ValueError(f"unknown or misplaced: {', '.join(sorted(table))}")
    said = [table] if output is None and table else output or []
    reply = Reply(
        items=tuple(_item(part) for part in said),
        fault=_fault(fault) if fault else None,
        **{_SETTINGS[key][0]: _setting(_SETTINGS, key, value) for key, value in settings.items()},
    )
    return [reply] * repeat


def _fault(table: Mapping[str, Any]) -> Fault:
    return Fault(**{_FAULTS[key][0]: _setting(_FAULTS, key, value) for key, value in table.items()})


def _setting(kinds: Mapping[str, tuple[str, Callable[[Any], Any]]], key: str, value: Any) -> Any:
    try:
        return kinds[key][1](value)
    except (ValueError, TypeError, CodexError) as error:
        raise ValueError(f"`{key}`: {error}") from error


def _item(part: Any) -> ResponseItem:
    if isinstance(part, str):
        return _message(part)
    if not isinstance(part, Mapping):
        raise TypeError(f"an output must be a string or a table, not {part!r}")
    if "type" in part:
        return read_item(part)
    for word, make in _ITEMS.items():
        if word in part:
            rest = {key: value for key, value in part.items() if key != word}
            known = set(inspect.signature(make).parameters)
            others = sorted(set(rest) - known)
            if others and word != "local_shell":  # which takes all fields of the action
                raise ValueError(f"`{word}` does not have: {', '.join(others)}")
            if missing := sorted(_REQUIRED.get(word, set()) - set(rest)):
                raise ValueError(f"`{word}` needs: {', '.join(missing)}")
            if word not in ("reasoning", "local_shell") and not isinstance(part[word], str):
                raise TypeError(f"`{word}` is {part[word]!r}, not a string")
            return make(part[word], **rest)
    raise ValueError(f"an output needs one of: {', '.join([*_ITEMS, 'type'])}; this one has: {', '.join(part)}")


def _message(say: str, *, phase: str | None = None) -> Message:
    return Message("assistant", (OutputText(str(say)),), phase=phase)


def _reasoning(reasoning: str | list[str], *, encrypted_content: str | None = None) -> Reasoning:
    texts = [reasoning] if isinstance(reasoning, str) else reasoning
    summary = tuple({"type": "summary_text", "text": text} for text in texts)
    return Reasoning(summary=summary, encrypted_content=encrypted_content)


def _call(name: str, *, arguments: Any = None, call_id: str = "", namespace: str | None = None) -> FunctionCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return FunctionCall(name, text, call_id, namespace)


def _custom_call(name: str, *, input: str, call_id: str = "") -> CustomToolCall:  # noqa: A002  # the wire's word
    return CustomToolCall(name, input, call_id, status="completed")


def _local_shell(command: list[str], *, call_id: str | None = None, **action: Any) -> LocalShellCall:
    return LocalShellCall({"type": "exec", "command": command, **action}, call_id, "completed")


_ITEMS: dict[str, Callable[..., ResponseItem]] = {
    "say": _message,
    "reasoning": _reasoning,
    "call": _call,
    "custom_call": _custom_call,
    "local_shell": _local_shell,
}


_REQUIRED = {"custom_call": {"input"}}


def _seconds(milliseconds: Any) -> float:
    if not isinstance(milliseconds, (int, float)) or not 0 <= milliseconds < math.inf:
        raise ValueError(f"{milliseconds!r} is not a number of milliseconds")
    return milliseconds / 1000


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number from 0")
    return value


def _numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list of numbers")
    return tuple(map(_number, value))


def _identity(value: Any) -> Any:
    return value


def _usage(table: Any) -> TokenUsage | None:
    return read(TokenUsage, table) if table else None


def _error(table: Any) -> ModelError:
    if isinstance(table, str):
        return ModelError(table)
    fields = dict(table)
    known = ("message", "retryable", "retry_after_s", "info", "slug", "hint")
    if "message" not in fields or set(fields) - set(known):
        raise ValueError(f"`error` needs a message, and may have: {', '.join(known[1:])}")
    return ModelError(fields.pop("message"), **fields)


def _failure(table: Any) -> Mapping[str, Any]:
    return {"code": table, "message": table} if isinstance(table, str) else dict(table)


_SETTINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "deltas": ("deltas", _number),
    "delta_delay_ms": ("delta_delay_s", _seconds),
    "delay_ms": ("delay_s", _seconds),
    "usage": ("usage", _usage),
    "end_turn": ("end_turn", bool),
}
_FAULTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "error": ("error", _error),
    "status": ("status", _number),
    "headers": ("headers", dict),
    "body": ("body", _identity),
    "cut_after": ("after", _number),
    "reset": ("reset", bool),
    "hang_ms": ("hang_s", _seconds),
    "cut_at": ("cut_at", _number),
    "piece_bytes": ("piece_bytes", _number),
    "piece_pause_ms": ("piece_pause_s", _seconds),
    "duplicates": ("duplicates", _numbers),
    "garbled": ("garbled", _numbers),
    "out_of_order": ("out_of_order", bool),
    "no_completed": ("no_completed", bool),
    "raw_before": ("raw_before", str),
    "raw_after": ("raw_after", str),
    "failed": ("failed", _failure),
    "incomplete": ("incomplete", str),
}
