"""The bytes between the kernel and the worker: frames of a length and its content, in Python's own encoding of plain data.

The kernel encodes in the time of its turns, so this is the fastest encoding that there is: JSON takes ten times as long, most
of it for numbers. Both processes run the same interpreter, and the worker reads only what its parent writes.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:  # the worker does without the kernel
    from codex_framework import Measurement

__all__ = ["LONGEST", "encoded", "frame", "frames"]

LONGEST = 16_384
"""Longest text of the content in characters; the rest is cut off."""

_FIELDS = attrgetter(
    *("kind", "name", "time_s", "duration_s", "value", "attributes", "content", "marks"),
    *("thread_id", "turn_id", "trace_id", "span_id", "parent_id", "failed"),
)
"""The fields of a measurement, in the order of the worker's ``Measured`` and of ``Measurements.rows``."""

_CONTENT = 6
_DEEPEST = 8
_SIZE_BYTES = 4
_LARGEST = 1 << 30

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
"""How half a character begins in a frame. Other data may look like it."""


def frame(value: Any) -> bytes:
    """Return plain data as a frame.

    Raises:
        ValueError: It is not plain data, or too large.
    """
    data = marshal.dumps(value)
    if len(data) > _LARGEST:
        raise ValueError("too large for a frame")
    return len(data).to_bytes(_SIZE_BYTES, "big") + data


def frames(source: BinaryIO) -> Iterator[Any]:
    """Yield the values of all frames that arrive whole, without halves of characters, which no protocol can express."""
    while len(head := source.read(_SIZE_BYTES)) == _SIZE_BYTES:
        size = int.from_bytes(head, "big")
        data = source.read(size)
        if len(data) < size:
            return
        value = marshal.loads(data)  # noqa: S302  # the parent's words
        yield _whole(value) if _SURROGATE.search(data) else value


def _whole(value: Any) -> Any:
    """Return plain data with halves of characters replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(name): _whole(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(each) for each in value]
    return value


def encoded(measurements: Sequence[Measurement]) -> bytes:
    """Return measurements as a frame. Values of plugins that are not plain data are written as text."""
    rows: Sequence[Any] = getattr(measurements, "rows", None) or [_FIELDS(each) for each in measurements]
    try:
        return frame([_truncate_row(row) if row[_CONTENT] else row for row in rows])
    except Exception:  # one of them has a value of a plugin, which can be anything
        return frame([_plain(row) for row in rows])


def _truncate_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the fields of a measurement whose content may be long."""
    return (*row[:_CONTENT], {name: text[:LONGEST] for name, text in row[_CONTENT].items()}, *row[_CONTENT + 1 :])


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value as plain data, with text in place of everything else."""
    if type(value) in (int, float, bool):
        return value
    try:
        if isinstance(value, Mapping) and depth < _DEEPEST:
            return {str(name): _plain(each, depth + 1) for name, each in value.items()}
        if isinstance(value, (list, tuple)) and depth < _DEEPEST:
            return [_plain(each, depth + 1) for each in value]
        return str(value)[:LONGEST]
    except Exception:
        return f"<{type(value).__name__}>"
