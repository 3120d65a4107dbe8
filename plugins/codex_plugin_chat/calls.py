"""Calls of functions, put together from the pieces in which servers send them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_lib_model_client.message_texts import whole_text

__all__ = ["CallBuilder", "PartialCall"]


class PartialCall:
    """A call that may still grow."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self._pieces: list[str] = []

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        if len(self._pieces) > 1:
            self._pieces = [whole_text(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a complete JSON object."""
        text = self.arguments.strip()
        if not (text.startswith("{") and text.endswith("}")):
            return False
        try:
            json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return False
        return True

    def add(self, call_id: str, name: str, arguments: str) -> None:
        """Add a piece. Servers may repeat the id and the name in each one, and the whole arguments in the last one."""
        self.id = self.id or call_id
        if name and name != self.name and not self._pieces:
            self.name += name
        if arguments and not (len(arguments) > 1 and self.is_whole and arguments == self.arguments):
            self._pieces.append(arguments)


class CallBuilder:
    """The calls of a response.

    A piece belongs to the call with its index. Servers that omit the index, or send 0 for every call, are told apart by id and name.
    """

    def __init__(self) -> None:
        self.calls: list[PartialCall] = []

    def ordered(self) -> list[PartialCall]:
        """Return the calls in the order of their indices, if the server gave them."""
        return sorted(self.calls, key=lambda call: call.index or 0)

    def add(self, pieces: Any) -> None:
        """Add the ``tool_calls`` of a delta or of a whole message.

        Raises:
            TypeError: They have an unexpected form.
        """
        if not isinstance(pieces, list):
            raise TypeError("tool_calls must be a list")
        for piece in pieces:
            function = piece.get("function") or {}
            index = piece.get("index")
            call_id, name = _text(piece.get("id")), _text(function.get("name"))
            call = self._call(index if type(index) is int else None, call_id, name)
            call.add(call_id, name, _arguments(function.get("arguments")))

    def add_function(self, function: Mapping[str, Any]) -> None:
        """Add a piece of the one call in the older form (``function_call``)."""
        self.add([{"index": 0, "function": function}])

    def _call(self, index: int | None, call_id: str, name: str) -> PartialCall:
        """Return the call to which a piece belongs."""
        if index is not None:
            known = next((call for call in reversed(self.calls) if call.index == index), None)
        elif call_id:
            known = next((call for call in self.calls if call.id == call_id), None)
        else:
            known = self.calls[-1] if self.calls else None
        if known is None or _begins_another(known, call_id, name):
            known = PartialCall(index)
            self.calls.append(known)
        return known


def _begins_another(known: PartialCall, call_id: str, name: str) -> bool:
    """Return whether a piece that seems to belong to a call begins another one."""
    if call_id:
        return bool(known.id) and call_id != known.id
    return bool(name) and known.is_whole


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("the id and the name of a call must be strings")
    return value


def _arguments(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
