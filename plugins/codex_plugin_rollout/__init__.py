"""Rollout files: conversations in ``$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, readable by Codex."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import ThreadStore, hookimpl
from codex_plugin_rollout.store import RolloutStore

__all__ = ["RolloutStore", "codex_thread_stores"]


@hookimpl
def codex_thread_stores() -> Iterable[ThreadStore]:
    """Offer the store named ``rollout``."""
    return [RolloutStore()]
