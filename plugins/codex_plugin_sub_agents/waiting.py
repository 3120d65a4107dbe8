"""Waiting for agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from codex_framework import ToolError
from codex_plugin_sub_agents.family import Family
from codex_plugin_sub_agents.status import NOT_FOUND, Status, is_final

__all__ = ["time_limit_s", "wait_for_final"]

_DEFAULT_MS, _LONGEST_MS = 30_000, 3_600_000
"""The time limit of a wait, and the longest one, in milliseconds (Codex's)."""


def time_limit_s(given_ms: int | None, shortest_ms: int) -> float:
    """Return the time limit of a wait in seconds.

    Raises:
        ToolError: It is not positive.
    """
    if given_ms is None:
        return _DEFAULT_MS / 1000
    if given_ms <= 0:
        raise ToolError("timeout_ms must be greater than zero")
    return min(max(given_ms, shortest_ms), _LONGEST_MS) / 1000


async def wait_for_final(family: Family, targets: Sequence[str], limit_s: float) -> Mapping[str, Status]:
    """Wait until one of the agents is final, and return the status of all that are. Empty if the time is over first."""
    found = _final(family, targets)
    if found:
        return found
    waits = [asyncio.ensure_future(family.children[target].until_final()) for target in targets]
    try:
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return _final(family, targets)


def _final(family: Family, targets: Sequence[str]) -> dict[str, Status]:
    """Return the status of the agents that are final. An agent that is not open is not found."""
    states = {target: family.status_of(target) for target in targets}
    return {target: status for target, status in states.items() if status == NOT_FOUND or is_final(status)}
