"""Reads the lines of a session file that say something about usage. All others are passed over without being parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import attrs

from codex_framework.toolkit.regular_files import open_regular

__all__ = ["Skipped", "relevant_lines"]

_LONGEST = 64 << 20
"""The longest line that is read, in bytes. A file without line ends must not fill the memory."""

_START = re.compile(rb'\{"timestamp":"[^"]{1,40}",(?:"ordinal":\d+,)?"type":"(\w+)","payload":\{(?:"type":"(\w+)")?')
"""The start of a line as Codex and the kernel write it. A line of another form is parsed."""

_OF_TOKENS: Mapping[bytes, frozenset[bytes] | None] = {
    b"session_meta": None,
    b"turn_context": None,
    b"token_usage_record": None,
    b"event_msg": frozenset({b"token_count", b"task_started", b"turn_started", b"thread_settings_applied"}),
    b"response_item": frozenset(),
}
"""The lines that tell about tokens: kind to the types of their payload. By default, all of them."""

_OF_CALLS: Mapping[bytes, frozenset[bytes] | None] = {
    **_OF_TOKENS,
    b"event_msg": frozenset(
        {
            b"token_count",
            b"task_started",
            b"turn_started",
            b"thread_settings_applied",
            b"task_complete",
            b"turn_complete",
            b"turn_aborted",
            b"item_completed",
            b"mcp_tool_call_end",
            b"patch_apply_end",
        }
    ),
    b"response_item": frozenset(
        {
            b"function_call",
            b"function_call_output",
            b"custom_tool_call",
            b"custom_tool_call_output",
            b"local_shell_call",
            b"tool_search_call",
            b"tool_search_output",
            b"web_search_call",
            b"image_generation_call",
        }
    ),
}
"""The lines that tell about tokens and calls."""

_decoded = json.JSONDecoder().decode


@attrs.define
class Skipped:
    """The number of lines that were passed over because they are broken."""

    count: int = 0


def relevant_lines(path: str, skipped: Skipped, *, calls: bool = True) -> Iterator[dict[str, Any]]:
    """Return the relevant lines of a file as objects with ``type`` and a ``payload`` that is an object.

    Args:
        skipped: Counts the broken lines.
        calls: Whether lines about calls are relevant, too.

    Raises:
        OSError: The file cannot be read, or not to its end.
        ZstandardNeededError: It cannot be decompressed.
    """
    relevant = _OF_CALLS if calls else _OF_TOKENS
    with _open_file(path) as file:
        while line := file.readline(_LONGEST):
            if len(line) == _LONGEST and not line.endswith(b"\n"):
                _pass_over_rest(file)
                skipped.count += 1
                continue
            start = _START.match(line)
            if start is not None and _is_irrelevant(start[1], start[2], relevant) and line.endswith((b"}\n", b"}\r\n")):
                continue
            found = _parse(line)
            if found is None:
                skipped.count += 1
            elif found:
                yield found


def _is_irrelevant(kind: bytes, payload_type: bytes | None, relevant: Mapping[bytes, frozenset[bytes] | None]) -> bool:
    if kind not in relevant:
        return True
    types = relevant[kind]
    return types is not None and payload_type is not None and payload_type not in types


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return a line's object. It is empty for a line that says nothing, and None for a broken one."""
    if not line.strip(b" \t\r\n\0"):  # a power failure can leave NULs in place of a line
        return {}
    try:
        raw = _decoded(line.decode())
    except (ValueError, RecursionError):  # a text that is not UTF-8 is a ValueError, too
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str) or "payload" not in raw:
        return None
    return raw if isinstance(raw["payload"], dict) else {}


def _pass_over_rest(file: BinaryIO) -> None:
    while (part := file.readline(1 << 20)) and not part.endswith(b"\n"):
        pass


@contextmanager
def _open_file(path: str) -> Iterator[BinaryIO]:
    with open(path, "rb", buffering=1 << 17, opener=open_regular) as file:
        if not path.endswith(".zst"):
            yield file
            return
        from codex_framework.toolkit.compressed import decompressing

        yield decompressing(file)
