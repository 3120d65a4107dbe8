"""The table ``[framework.plugins.bubblewrap]``."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["BubblewrapSettings"]


class BubblewrapSettings(Value, kw_only=True):
    """What a person can set.

    Attributes:
        path: The program, absolute; None: the first ``bwrap`` on ``PATH`` that commands cannot change.
    """

    path: str | None = None
