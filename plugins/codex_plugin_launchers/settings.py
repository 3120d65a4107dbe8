"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.launchers]``.

    Attributes:
        workers: The number of processes of ``pool``. By default, one per core.
        sessions: The number of sessions that a process runs at once.
        patience_s: The seconds after which a process that does not answer is ended. Its sessions continue in another one.
        protected: Files and folders that sessions can never write, as absolute paths.
    """

    workers: int | None = None
    sessions: int = 16
    patience_s: float = 60.0
    protected: Sequence[str] = ()
