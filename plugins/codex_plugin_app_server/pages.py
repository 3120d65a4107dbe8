"""Pages of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.table import Json

__all__ = ["newest_cursors", "page_of", "page_of_growing"]

T = TypeVar("T")


def page_of(items: Sequence[T], params: Json, most: int = 100, noun: str = "items") -> tuple[list[T], str | None]:
    """Return the page that ``cursor`` and ``limit`` name, and the cursor of the next one. Raises RpcError."""
    start = _position(params.get("cursor"), 0)
    if start > len(items):
        raise RpcError(f"cursor {start} exceeds total {noun} {len(items)}")
    limit = params.get("limit")
    end = start + (most if limit is None else max(limit, 1))
    return list(items[start:end]), str(end) if end < len(items) else None


def page_of_growing(items: Sequence[T], params: Json, *, direction: str, most: int = 100) -> dict[str, Any]:
    """Return a page of a list that grows at its end, with the cursors of both neighbours. Raises RpcError.

    A cursor is the position of the first item of its page, so that it stays valid. ``backwardsCursor`` is for the opposite
    direction, and its page begins with the first item of this page.

    Args:
        direction: The order if ``sortDirection`` is not given: ``asc`` for the oldest first, or ``desc``.
    """
    limit = _limit(params, most)
    descending = (params.get("sortDirection") or direction) == "desc"
    start = _position(params.get("cursor"), len(items) - 1 if descending else 0)
    if descending:
        page = list(reversed(items[max(start - limit + 1, 0) : start + 1]))
        following = start - limit
    else:
        page = list(items[start : start + limit])
        following = start + limit
    return {
        "data": page,
        "nextCursor": str(following) if 0 <= following < len(items) else None,
        "backwardsCursor": str(start) if page else None,
    }


def newest_cursors(turns: Sequence[Json]) -> dict[str, str | None]:
    """Return the cursors of the newest turn and the newest item, for pages that go back from there."""
    items = sum(len(turn["items"]) for turn in turns)
    return {
        "turnsBackwardsCursor": str(len(turns) - 1) if turns else None,
        "itemsBackwardsCursor": str(items - 1) if items else None,
    }


def _limit(params: Json, most: int) -> int:
    limit = params.get("limit")
    return most if limit is None else max(limit, 1)


def _position(cursor: object, default: int) -> int:
    if cursor is None:
        return default
    if isinstance(cursor, int):  # not of a client
        return cursor
    if not isinstance(cursor, str) or not cursor.isdecimal():
        raise RpcError(f"invalid cursor: {cursor}")
    return int(cursor)
