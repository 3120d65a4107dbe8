"""Closing of plugins' objects: each is closed within a time limit, and failures become messages for the user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from codex_framework.threads.faults import Label, fact_of, source_place
from codex_framework.threads.plugin_calls import PluginTimeout, call_with_timeout

__all__ = ["CLOSE_PATIENCE_S", "close", "close_all"]

CLOSE_PATIENCE_S = 5.0
"""Time limit for closing an object without a ``close_timeout_s``, in seconds."""


async def close(label: Label, target: Any) -> str | None:
    """Call ``target.aclose()``, for at most ``target.close_timeout_s`` seconds if it has one.

    Returns:
        What went wrong and where, without advice. None if the object was closed.
    """
    limit_s = getattr(target, "close_timeout_s", CLOSE_PATIENCE_S)
    aclose = target.aclose
    try:
        await call_with_timeout(limit_s, aclose)
    except PluginTimeout:
        return f"{label}: aclose() did not end within {limit_s:g} s{source_place(aclose)}"
    except Exception as error:  # a plugin may raise anything, and the others must still be closed
        return f"{label}: aclose() failed: {fact_of(error, aclose)}"
    return None


async def close_all(*stages: Iterable[tuple[Label, Any]]) -> Sequence[tuple[str, str]]:
    """Close the objects of each stage concurrently, one stage after the other.

    Returns:
        The errors, each with the plugin's name and what went wrong.
    """
    problems: list[tuple[str, str]] = []
    for stage in stages:
        targets = tuple(stage)
        facts = await asyncio.gather(*(close(label, target) for label, target in targets))
        problems += [(label.plugin, fact) for (label, _), fact in zip(targets, facts, strict=True) if fact is not None]
    return problems
