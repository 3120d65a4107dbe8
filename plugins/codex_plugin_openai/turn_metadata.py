"""What a request says of its turn, for gateways and logs: in ``client_metadata``, and as the header ``x-codex-turn-metadata``."""

from __future__ import annotations

import json

from codex_framework import ModelRequest

__all__ = ["described"]

_HEADER = "x-codex-turn-metadata"


def described(request: ModelRequest, kind: str = "turn") -> ModelRequest:
    """Return a request with the ids of its session, thread and turn in its metadata. What the metadata already has, stays.

    Args:
        kind: What the request is for: ``turn`` or ``prewarm``.
    """
    ids = {"session_id": request.cache_key, "thread_id": request.thread_id, "turn_id": request.turn_id}
    turn = {**ids, "request_kind": kind, "model": request.model.slug}
    if kind == "turn" and (trigger := request.metadata.get("source")):
        turn["turn_trigger"] = trigger
    if request.reasoning_effort:
        turn["reasoning_effort"] = request.reasoning_effort
    encoded = json.dumps(turn, separators=(",", ":"))  # in ASCII, because it is a header as well
    return request.evolve(metadata={**ids, _HEADER: encoded, **request.metadata})
