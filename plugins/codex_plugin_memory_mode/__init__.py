"""The memory mode of a thread: whether later sessions may learn from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import OpHandler, hookimpl
from codex_framework.toolkit.exports import exported

if TYPE_CHECKING:
    from codex_plugin_memory_mode.ops import SetThreadMemoryMode, memory_mode
else:
    __getattr__ = exported(__name__, {"ops": "SetThreadMemoryMode memory_mode"})

__all__ = ["SetThreadMemoryMode", "codex_ops", "memory_mode"]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``set_thread_memory_mode``."""
    from codex_plugin_memory_mode.ops import MemoryModeHandler

    return [MemoryModeHandler()]
