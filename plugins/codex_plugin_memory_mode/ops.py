"""The op ``set_thread_memory_mode``, its handler, and the mode of a thread."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError
from codex_framework.contract.roles.stores import ThreadMeta

__all__ = ["DISABLED", "POLLUTED", "MemoryModeHandler", "SetThreadMemoryMode", "memory_mode"]

DISABLED, POLLUTED = "disabled", "polluted"

_ENABLED = "enabled"
_MODES = (_ENABLED, DISABLED)


class SetThreadMemoryMode(Op):
    """Say whether later sessions may learn from this thread.

    Attributes:
        mode: ``enabled`` or ``disabled``.
    """

    type: ClassVar[Literal["set_thread_memory_mode"]] = "set_thread_memory_mode"
    mode: str


def memory_mode(meta: ThreadMeta) -> str:
    """Return the mode of a thread: ``enabled``, ``disabled`` or ``polluted``."""
    given = meta.extra.get("memory_mode")
    return given if isinstance(given, str) and given else _ENABLED


class MemoryModeHandler(OpHandler[SetThreadMemoryMode]):
    """Writes the mode into the head of the thread's record, where Codex reads it."""

    op = SetThreadMemoryMode

    async def handle(self, op: SetThreadMemoryMode, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Keep the mode.

        Raises:
            ThreadError: There is no such mode.
        """
        if op.mode not in _MODES:
            raise ThreadError(
                f"there is no memory mode {op.mode[:80]!r}", slug="bad-request", hint=f"Use {' or '.join(_MODES)}."
            )
        if memory_mode(thread.meta) != op.mode:
            thread.change_meta(memory_mode=op.mode)
