"""The events of ``undo``."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg

__all__ = ["UndoCompletedEvent", "UndoStartedEvent"]


class UndoStartedEvent(EventMsg):
    """The files are being restored."""

    type: ClassVar[Literal["undo_started"]] = "undo_started"
    message: str | None = None


class UndoCompletedEvent(EventMsg):
    """The files were restored, or they could not be.

    Attributes:
        message: The result, or why nothing was done.
    """

    type: ClassVar[Literal["undo_completed"]] = "undo_completed"
    success: bool
    message: str | None = None
