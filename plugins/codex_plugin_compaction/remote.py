"""Compaction by the model's server, where the provider offers it (wire: ``compaction_trigger``, Codex's remote compaction v2)."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Compaction, ModelError, ResponseItem, TaskContext
from codex_framework.contract.protocol.events import BackgroundEvent, WarningEvent
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.toolkit.truncation import token_count
from codex_plugin_compaction.history import fitted, kept_messages
from codex_plugin_compaction.metadata import OVERFLOW, Occasion
from codex_plugin_compaction.writing import compaction_request

__all__ = ["KEPT_TOKENS", "compacted_by_server"]

KEPT_TOKENS = 64_000
"""Maximum number of tokens of the user's messages to keep in total (Codex's)."""

_IMPLEMENTATION = "responses_compaction_v2"
_TRIGGER = UnknownItem({"type": "compaction_trigger"})
_KINDS = ("compaction", "compaction_summary")
_THIS_ONE = "not-compacted"
"""The slug of clients that cannot have one conversation compacted, although they can others (``ModelClient``)."""
_SHOWN = 200
"""Maximum number of characters shown of a server's message."""


class _Refusal:
    """A refusal by a thread's server.

    Attributes:
        lasting: Whether the server is not asked again.
    """

    lasting: bool = False


async def compacted_by_server(turn: TaskContext, occasion: Occasion) -> Compaction | None:
    """Return the user's messages and the server's item for everything else. None if the server refuses, which is a warning.

    Raises:
        ModelError: The server cannot be reached, refuses the login or has no capacity, or a limit is reached. A request for a
            summary would fail for the same reason.
    """
    refusal = turn.state(_Refusal, _Refusal)
    if refusal.lasting:
        return None
    history = tuple(turn.history)
    window = (occasion.model or turn.facts.model).context_window
    whole = turn.draft((*history, _TRIGGER))
    room = window - token_count(len(whole.instructions.encode("utf-8", "surrogatepass")))
    items, omitted = fitted(history, room)
    request = turn.draft((*items, _TRIGGER)) if omitted else whole
    try:
        result = await turn.sample(compaction_request(turn, request, occasion, _IMPLEMENTATION), announce=False)
    except ModelError as error:
        if not _is_refusal(error):
            raise
        refusal.lasting = error.info != OVERFLOW and not error.retryable and error.slug != _THIS_ONE
        _warn(turn, error.fact)
        return None
    found = _compaction(result.items, window)
    if isinstance(found, str):
        refusal.lasting = True
        _warn(turn, found)
        return None
    if omitted:
        turn.emit(BackgroundEvent(f"the compaction does not cover {omitted} outputs of tools, which did not fit"))
    return Compaction(items=[*kept_messages(history, KEPT_TOKENS), found], message="")


def _compaction(items: Iterable[ResponseItem], window: int) -> UnknownItem | str:
    """Return the compaction among the items of a response, or the problem with it."""
    found = [item for item in items if isinstance(item, UnknownItem) and item.kind in _KINDS]
    if len(found) != 1:
        return f"its response has {len(found)} compactions instead of one"
    raw = found[0].raw
    content, name = raw.get("encrypted_content"), raw.get("id")
    if not isinstance(content, str) or not content:
        return "its compaction has no content"
    if token_count(len(content)) > window:
        return f"its compaction has {len(content)} characters, for which the context window has no room"
    named = {"id": name} if isinstance(name, str) and name else {}
    return UnknownItem({"type": "compaction", **named, "encrypted_content": content})


def _is_refusal(error: ModelError) -> bool:
    """Return whether a request for a summary may succeed where this one failed."""
    if error.info in ("bad_request", OVERFLOW, "internal_server_error") or error.slug in ("incomplete", _THIS_ONE):
        return True
    if not isinstance(error.info, dict):
        return False
    failed = error.info.get("http_connection_failed")
    if isinstance(failed, dict):
        return failed.get("http_status_code") not in (None, 403)
    return "response_stream_disconnected" in error.info and error.slug != "rate-limit"


def _warn(turn: TaskContext, reason: str) -> None:
    shown = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}..."
    turn.emit(
        WarningEvent(
            f"The server did not compact the conversation, so the model summarises it: {shown}", slug="not-compacted"
        )
    )
