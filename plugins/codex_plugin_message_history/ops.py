"""The ops of the message history, and their handlers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext

if TYPE_CHECKING:
    from codex_plugin_message_history.history import History

__all__ = [
    "AddHandler",
    "AddToHistory",
    "EntryHandler",
    "GetHistoryEntryRequest",
    "GetHistoryMetadata",
    "MetadataHandler",
]


class AddToHistory(Op):
    """Append a prompt to the history of all sessions, unless ``[history] persistence`` is ``none``."""

    type: ClassVar[Literal["add_to_history"]] = "add_to_history"
    text: str


class GetHistoryEntryRequest(Op):
    """Look up an entry. The answer is the event ``get_history_entry_response``.

    Attributes:
        offset: The entry's number in the file, starting at 0.
        log_id: The identity of the file, so that an entry of another file is not returned.
    """

    type: ClassVar[Literal["get_history_entry_request"]] = "get_history_entry_request"
    offset: int
    log_id: int


class GetHistoryMetadata(Op):
    """Ask for the identity of the file and the number of its entries. The answer is the event ``history_metadata``."""

    type: ClassVar[Literal["get_history_metadata"]] = "get_history_metadata"


class AddHandler(OpHandler[AddToHistory]):
    """Appends a prompt."""

    op = AddToHistory

    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home

    async def handle(self, op: AddToHistory, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Append the text, with the thread's id. Raises CodexError."""
        import asyncio

        history = _history(self._codex_home, thread.config)
        await asyncio.to_thread(history.append, thread.id, op.text)  # another program may hold the lock for a moment


class EntryHandler(OpHandler[GetHistoryEntryRequest]):
    """Looks up an entry."""

    op = GetHistoryEntryRequest

    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home

    async def handle(self, op: GetHistoryEntryRequest, thread: ThreadContext, id: str) -> None:  # noqa: A002
        """Answer under the submission's id. Raises CodexError."""
        from codex_plugin_message_history.events import GetHistoryEntryResponseEvent

        entry = _history(self._codex_home, thread.config).lookup(op.log_id, op.offset)
        thread.emit(GetHistoryEntryResponseEvent(op.offset, op.log_id, entry), id=id)


class MetadataHandler(OpHandler[GetHistoryMetadata]):
    """Tells the file's identity and length."""

    op = GetHistoryMetadata

    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home

    async def handle(self, op: GetHistoryMetadata, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """Answer under the submission's id. Raises CodexError."""
        from codex_plugin_message_history.events import HistoryMetadataEvent

        log_id, count = _history(self._codex_home, thread.config).metadata()
        thread.emit(HistoryMetadataEvent(log_id, count), id=id)


def _history(codex_home: Path, config: Mapping[str, Any]) -> History:
    from codex_plugin_message_history.history import history_of

    return history_of(codex_home, config)
