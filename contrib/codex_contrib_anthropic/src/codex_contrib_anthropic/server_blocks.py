"""Blocks of tools that the server runs: how the history keeps them, and how they go back.

The server wants them back unchanged and in their order. Each is kept in a reasoning item with private data, which no other API
gets. Readers see a search of the web as the item ``web_search_call``, which is not sent back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from codex_contrib_anthropic.citations import API
from codex_framework import ResponseItem
from codex_framework.contract.protocol.items import Reasoning, UnknownItem
from codex_lib_model_client.message_texts import utf8
from codex_lib_model_client.private_data import marked, private_data

__all__ = [
    "RESULT",
    "USE",
    "Pairs",
    "answered",
    "block_of",
    "end_mark",
    "is_own_search",
    "kept_block",
    "kept_end",
    "kept_name",
    "search_item",
]

USE = "server_tool_use"
RESULT = "_tool_result"
_OWN = "ws_messages_"
_SEARCH = "web_search"


def search_item(place: str, status: str, query: Any = None) -> UnknownItem:
    """Return the visible item for a search.

    Args:
        place: A unique key of it.
        status: ``in_progress``, ``completed`` or ``failed``.
    """
    raw: dict[str, Any] = {"type": "web_search_call", "id": f"{_OWN}{place}", "status": status}
    if isinstance(query, str):
        raw["action"] = {"type": "search", "query": query}
    return UnknownItem(raw)


def is_own_search(item: ResponseItem) -> bool:
    """Return whether readers see the item for a search of this API, which other items carry."""
    return isinstance(item, UnknownItem) and str(item.raw.get("id") or "").startswith(_OWN)


def kept_block(item_id: str, response: str, block: Mapping[str, Any]) -> Reasoning:
    """Return the item that keeps a block."""
    return Reasoning(item_id, (), extra=marked(API, {"response": response, "block": dict(block)}))


def kept_end(item_id: str, response: str, container: str | None, *, paused: bool) -> Reasoning:
    """Return the item for the end of a response after which the server continues its own work.

    Args:
        container: The container in which the server runs code. The next request must name it.
        paused: Whether the response is continued unchanged. False means that calls are answered first.
    """
    data: dict[str, Any] = {"response": response, "paused": paused}
    if container is not None:
        data["container"] = container
    return Reasoning(item_id, (), extra=marked(API, data))


def end_mark(item: ResponseItem) -> Mapping[str, Any] | None:
    """Return ``paused`` and ``container`` of an item that :func:`kept_end` made, or None for other items."""
    mark = private_data(item, API)
    return mark if mark is not None and "paused" in mark else None


def block_of(item: ResponseItem) -> Mapping[str, Any] | None:
    """Return the block that an item keeps, or None."""
    mark = private_data(item, API)
    block = None if mark is None else mark.get("block")
    return block if isinstance(block, Mapping) else None


def kept_name(item: ResponseItem) -> str:
    """Return a name for the data kept in an item: a call with its result, or the sources of a text. Empty if nothing is kept."""
    mark = private_data(item, API)
    if mark is None:
        return ""
    block = mark.get("block")
    if isinstance(block, Mapping):
        return str(block.get("tool_use_id") or block.get("id"))
    return f"texts {getattr(item, 'id', '')}" if "texts" in mark else ""


def answered(items: Collection[ResponseItem]) -> frozenset[str]:
    """Return the ids of the calls whose results are among some items."""
    blocks = (block_of(item) for item in items)
    return frozenset(str(block["tool_use_id"]) for block in blocks if block is not None and "tool_use_id" in block)


class Pairs:
    """Pairs calls with results while a message of the model is written: the server refuses one without the other.

    Args:
        earlier: The ids of calls in the message before, whose results are in this one.

    Attributes:
        open: The ids of the calls without a result so far.
    """

    def __init__(self, earlier: Collection[str]) -> None:
        self._earlier = set(earlier)
        self._seen: set[str] = set()
        self._calls: dict[str, Mapping[str, Any]] = {}

    @property
    def open(self) -> frozenset[str]:
        """The ids of the calls without a result so far."""
        return frozenset(self._calls)

    def add(self, block: Mapping[str, Any]) -> bytes | None:
        """Return the encoding of a block, or None if it is a result without a call, or a call for the second time."""
        if block.get("type") == USE:
            call_id = str(block.get("id"))
            if call_id in self._seen:
                return None
            self._seen.add(call_id)
            self._calls[call_id] = block
            return utf8(dict(block))
        call_id = str(block.get("tool_use_id"))
        if self._calls.pop(call_id, None) is None:
            if call_id not in self._earlier:
                return None
            self._earlier.remove(call_id)
        return utf8(dict(block))

    def failures(self, going_on: Collection[str]) -> list[bytes]:
        """Return results for the open calls, which say that the server has not run them.

        Args:
            going_on: The ids of calls that the server still runs.
        """
        return [utf8(_failure(block)) for call_id, block in self._calls.items() if call_id not in going_on]


def _failure(call: Mapping[str, Any]) -> dict[str, Any]:
    name = str(call.get("name") or _SEARCH)
    kind = f"{'tool_search' if name.startswith('tool_search') else name}{RESULT}"
    content = {"type": f"{kind}_error", "error_code": "unavailable"}
    result = {"type": kind, "tool_use_id": call.get("id"), "content": content}
    return {**result, "caller": call["caller"]} if "caller" in call else result
