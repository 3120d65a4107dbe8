"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.undo]``.

    Attributes:
        snapshots: Whether every turn begins with a snapshot of the files, which ``undo`` restores. ``features.ghost_commit``,
            which is Codex's name for it, does the same.
        largest_untracked_mib: Untracked files above this size are not in a snapshot, in MiB (Codex's limit: 10).
        most_untracked_files: A folder without tracked files is not in a snapshot if it has more untracked files than this
            (Codex's limit: 200).
        keep_days: How long snapshots are kept, in days.
    """

    snapshots: bool = False
    largest_untracked_mib: int = 10
    most_untracked_files: int = 200
    keep_days: int = 14
