"""The ``view_image`` tool: lets the model see an image file."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl

__all__ = ["codex_tools"]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``view_image``."""
    from codex_plugin_view_image.tool import ViewImage

    return [ViewImage()]
