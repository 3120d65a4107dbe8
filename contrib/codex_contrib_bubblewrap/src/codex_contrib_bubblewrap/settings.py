"""The table ``[framework.plugins.bubblewrap]``."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["BubblewrapSettings"]


class BubblewrapSettings(Value, kw_only=True):
    """The settings of the plugin.

    Attributes:
        path: The absolute path of the program. The default is the first ``bwrap`` on ``PATH`` that commands cannot change.
    """

    path: str | None = None
