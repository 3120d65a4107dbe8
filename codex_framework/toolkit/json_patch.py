"""JSON Patch (RFC 6902): the difference of two JSON documents as a list of operations, and its application.

A patch made here has only ``add``, ``remove`` and ``replace`` operations, so it contains nothing of the old document but paths.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

__all__ = ["Operation", "align_lists", "apply_json_patch", "array_patch", "json_patch", "pointer"]

Operation = dict[str, Any]
"""One operation: ``{"op": "replace", "path": "/tools/shell/description", "value": "..."}``."""


def json_patch(before: Any, after: Any, path: str = "") -> list[Operation]:
    """Return the operations that turn one document into another. Without a difference, return an empty list.

    Args:
        path: The place of both in a larger document, as a JSON Pointer.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_objects(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return array_patch(before, after, path)
    return [] if _same(before, after) else [{"op": "replace", "path": path, "value": after}]


def apply_json_patch(document: Any, patch: Sequence[Mapping[str, Any]]) -> Any:
    """Return a document with a patch of ``add``, ``remove`` and ``replace`` operations applied.

    The given document is not changed.

    Raises:
        ValueError: The patch does not fit the document.
    """
    whole = {"": _copy(document)}
    for operation in patch:
        try:
            _apply(whole, operation)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            shown = f"{operation.get('op')} {operation.get('path')}" if isinstance(operation, Mapping) else operation
            raise ValueError(f"the operation {shown!r} does not fit the document: {error}") from error
    return whole[""]


def pointer(*parts: str | int) -> str:
    """Return a JSON Pointer (RFC 6901) of some keys and indexes."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def align_lists(before: Sequence[Any], after: Sequence[Any], key: Callable[[Any], Hashable]) -> list[tuple[int, int]]:
    """Return the places of elements that two lists share, as pairs that ascend in both.

    Args:
        key: Returns a key that is equal for equal elements.
    """
    places: dict[Hashable, deque[int]] = {}
    for place, element in enumerate(before):
        places.setdefault(key(element), deque()).append(place)
    pairs = []
    for place, element in enumerate(after):
        known = places.get(key(element))
        if known:
            pairs.append((known.popleft(), place))
    return _ascending(pairs)


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of some pairs whose first numbers ascend (patience sorting)."""
    tops: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, (first, _) in enumerate(pairs):
        at = bisect_left(tops, first)
        previous.append(ends[at - 1] if at else -1)
        tops[at : at + 1] = [first]
        ends[at : at + 1] = [number]
    chosen = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = previous[number]
    return chosen[::-1]


def _of_objects(before: dict[str, Any], after: dict[str, Any], path: str) -> list[Operation]:
    found: list[Operation] = [{"op": "remove", "path": path + pointer(name)} for name in before if name not in after]
    for name, value in after.items():
        at = path + pointer(name)
        if name not in before:
            found.append({"op": "add", "path": at, "value": value})
        elif before[name] is not value:
            found += json_patch(before[name], value, at)
    return found


def array_patch(before: list[Any], after: list[Any], path: str, start: int = 0) -> list[Operation]:
    """Return the operations that turn a part of an array into another part.

    Args:
        path: The path of the array.
        start: The index at which the part begins.
    """
    found: list[Operation] = []
    at, first, second = start, 0, 0
    for kept, place in [*align_lists(before, after, _text), (len(before), len(after))]:
        old, new = before[first:kept], after[second:place]
        for one, other in zip(old, new, strict=False):
            found += json_patch(one, other, f"{path}/{at}")
            at += 1
        found += [{"op": "remove", "path": f"{path}/{at}"} for _ in old[len(new) :]]
        for value in new[len(old) :]:
            found.append({"op": "add", "path": f"{path}/{at}", "value": value})
            at += 1
        at += 1
        first, second = kept + 1, place + 1
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _same(before: Any, after: Any) -> bool:
    """Return whether two documents are equal. ``1``, ``1.0`` and ``true`` are different, and ``NaN`` is equal to itself."""
    return before is after or (type(before) is type(after) and _text(before) == _text(after))


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _apply(whole: dict[str, Any], operation: Mapping[str, Any]) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")]
    *way, last = parts
    place: Any = whole
    for part in way:
        place = place[_index(place, part)] if isinstance(place, list) else place[part]
    match operation["op"], place:
        case "add", list():
            at = len(place) if last == "-" else _index(place, last, more=1)
            place.insert(at, _copy(operation["value"]))
        case "add", dict():
            place[last] = _copy(operation["value"])
        case "replace", list():
            place[_index(place, last)] = _copy(operation["value"])
        case "replace", dict():
            if last not in place:
                raise KeyError(last)
            place[last] = _copy(operation["value"])
        case "remove", list():
            del place[_index(place, last)]
        case "remove", dict():
            del place[last]
        case kind, _:
            raise ValueError(f"{kind} is not possible there")


def _index(place: list[Any], text: str, *, more: int = 0) -> int:
    if not text.isascii() or not text.isdigit() or (text[0] == "0" and text != "0"):
        raise ValueError(f"{text!r} is not an index")
    index = int(text)
    if index >= len(place) + more:
        raise IndexError(f"there is no element {index}")
    return index
