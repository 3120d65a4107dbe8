"""The events of the message history."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg
from codex_framework.contract.value import Value

__all__ = ["GetHistoryEntryResponseEvent", "HistoryEntry", "HistoryMetadataEvent"]


class HistoryEntry(Value):
    """A prompt.

    Attributes:
        session_id: The thread in which it was typed.
        ts: When, in Unix seconds.
    """

    session_id: str
    ts: int
    text: str


class GetHistoryEntryResponseEvent(EventMsg):
    """The answer to ``get_history_entry_request``. ``entry`` is None if it no longer exists."""

    type: ClassVar[Literal["get_history_entry_response"]] = "get_history_entry_response"
    offset: int
    log_id: int
    entry: HistoryEntry | None = None


class HistoryMetadataEvent(EventMsg):
    """The answer to ``get_history_metadata``.

    Attributes:
        log_id: The identity of the file. 0 means that there is no file yet.
        entry_count: How many entries it has. Their offsets start at 0.
    """

    type: ClassVar[Literal["history_metadata"]] = "history_metadata"
    log_id: int
    entry_count: int
