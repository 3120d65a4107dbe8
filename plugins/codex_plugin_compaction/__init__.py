"""Compaction: a conversation that fills the model's context window continues with a summary.

The plugin offers the compactor ``summary`` and the op ``compact``. The kernel decides when to compact: on request, before a turn,
between two samples of a turn, and when a request did not fit the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Compactor, OpHandler, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_compaction.request import Compact, Compacting
else:
    __getattr__ = lazy_exports(__name__, {"request": "Compact Compacting"})

__all__ = ["Compact", "Compacting", "codex_compactors", "codex_ops"]


@hookimpl
def codex_compactors() -> Iterable[Compactor]:
    """Offer the compactor ``summary``."""
    from codex_plugin_compaction.summary import Summary

    return [Summary()]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``compact``."""
    from codex_plugin_compaction.request import CompactHandler

    return [CompactHandler()]
