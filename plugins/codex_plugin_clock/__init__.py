"""The tools ``clock.sleep`` and ``clock.curr_time``, for models that know them."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``sleep`` and ``curr_time``."""
    from codex_plugin_clock.tools import CurrentTime, Sleep

    return [Sleep(), CurrentTime()]
