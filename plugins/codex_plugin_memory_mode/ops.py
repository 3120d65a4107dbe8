"""The op ``set_thread_memory_mode``, its handler, and the mode of a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError

__all__ = ["KIND", "MODES", "MemoryModeHandler", "SetThreadMemoryMode", "memory_mode"]

KIND = "memory_mode"
"""The kind of the entries in a thread's record: ``{"mode": "enabled" | "disabled"}``. The last one counts."""

MODES = ("enabled", "disabled")


class SetThreadMemoryMode(Op):
    """Say whether later sessions may learn from this thread.

    Attributes:
        mode: ``enabled`` or ``disabled``.
    """

    type: ClassVar[Literal["set_thread_memory_mode"]] = "set_thread_memory_mode"
    mode: str


def memory_mode(entries: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]) -> str:
    """Return the mode of a thread: that of its last entry, or of its metadata. ``enabled`` is the default.

    Args:
        entries: The entries of the kind :data:`KIND`.
        extra: ``ThreadMeta.extra``, where Codex writes ``memory_mode``.
    """
    found = next((entry.get("mode") for entry in reversed(entries) if entry.get("mode") in MODES), None)
    given = extra.get("memory_mode") if found is None else found
    return given if isinstance(given, str) and given else "enabled"


class MemoryModeHandler(OpHandler[SetThreadMemoryMode]):
    """Writes the mode into the record of the thread, where it survives a resume."""

    op = SetThreadMemoryMode

    async def handle(self, op: SetThreadMemoryMode, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Keep the mode.

        Raises:
            ThreadError: There is no such mode.
        """
        if op.mode not in MODES:
            raise ThreadError(
                f"there is no memory mode {op.mode[:80]!r}", slug="bad-request", hint=f"Use {' or '.join(MODES)}."
            )
        if memory_mode(thread.entries(KIND), thread.meta.extra) != op.mode:
            thread.append_entry(KIND, {"mode": op.mode})
