"""The hooks of the plugin template. Heavy imports belong inside the functions that need them."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework import Tool, hookimpl


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer the tool."""
    from codex_contrib_template.words import count_words

    return [count_words]
