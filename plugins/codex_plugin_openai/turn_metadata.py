"""Metadata of a request about its turn, for gateways and logs: in ``client_metadata``, and as the header ``x-codex-turn-metadata``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from codex_framework import ModelRequest

__all__ = ["described"]

_HEADER = "x-codex-turn-metadata"
_KIND, _COMPACTION = "request_kind", "compaction"
"""Keys of a request's metadata about the turn: the purpose of the request and, as JSON, the compaction that it serves."""

_ENCODER = json.JSONEncoder(separators=(",", ":"))
"""Encodes in ASCII, because the result is a header as well."""


def described(
    request: ModelRequest, kind: str | None = "turn", configured: Mapping[str, str] = MappingProxyType({})
) -> ModelRequest:
    """Return a request with the ids of its session, thread and turn in its metadata. Existing metadata is kept.

    Args:
        kind: The purpose of the request if its metadata lacks it: ``turn`` or ``prewarm``. None leaves it out.
        configured: Additions of the user's configuration. They cannot replace existing metadata.
    """
    given = dict(request.metadata)
    kind, compaction = given.pop(_KIND, kind), _table(given.pop(_COMPACTION, ""))
    ids = {"session_id": request.cache_key, "thread_id": request.thread_id, "turn_id": request.turn_id}
    turn: dict[str, Any] = {**configured, **request.client_metadata, **ids, **({_KIND: kind} if kind else {})}
    if kind != "prewarm" and (trigger := given.get("source")):
        turn["turn_trigger"] = trigger
    if compaction:
        turn[_COMPACTION] = compaction
    else:
        turn["model"] = request.model.slug
        if request.reasoning_effort:
            turn["reasoning_effort"] = request.reasoning_effort
    return request.evolve(metadata={**ids, _HEADER: _ENCODER.encode(turn), **given})


def _table(text: str) -> dict[str, Any]:
    """Return a JSON object. It is empty if the text is not one."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
