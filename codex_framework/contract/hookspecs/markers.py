"""The markers of hooks and of their implementations."""

from __future__ import annotations

import pluggy

__all__ = ["GROUP", "hookimpl", "hookspec"]

GROUP = "codex_framework"
"""The entry-point group, and pluggy's project name."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)
