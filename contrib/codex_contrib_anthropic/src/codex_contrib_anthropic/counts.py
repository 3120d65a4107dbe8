"""The tokens of one response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.events.turn import TokenUsage

__all__ = ["Counts"]

_THOUGHT = "thinking_tokens"
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_NAMES = (*_INPUT, "output_tokens", _THOUGHT)


class Counts:
    """Counts that the server states while it responds.

    After each search the server runs the model again, and it counts the input of all these runs. So the input of such a
    response is a multiple of the conversation. ``total_tokens`` is the length of the conversation, by which the kernel decides
    about compaction.

    Attributes:
        runs: How often the model was run.
    """

    def __init__(self) -> None:
        self.runs = 1
        self._counts: dict[str, int] = {}
        self._first = 0
        self._last: TokenUsage | None = None

    def begin(self, usage: Any) -> None:
        """Use the counts at the beginning of a response as the counts of the first run."""
        self.note(usage)
        self._first = self._first or sum(self._counts.get(name, 0) for name in _INPUT)

    def note(self, usage: Any) -> None:
        """Take over counts. They are totals, so that a smaller one (of a gateway that fills in zeros) is no news."""
        if not isinstance(usage, Mapping):
            return
        details = usage.get("output_tokens_details")
        for name in _NAMES:
            source = details if name == _THOUGHT and isinstance(details, Mapping) else usage
            value = source.get(name)
            if type(value) is int and value >= self._counts.get(name, 0):
                self._counts[name] = value
        self._last = _last_run(usage.get("iterations")) or self._last

    def usage(self) -> TokenUsage | None:
        """Return the usage, or None if the server has not stated any."""
        if not self._counts:
            return None
        whole = _usage(self._counts)
        return whole.evolve(total_tokens=self._length(whole)) if self.runs > 1 or self._last is not None else whole

    def _length(self, whole: TokenUsage) -> int:
        """Return the length of the conversation. Unless the server states it, the input has presumably grown equally with each run."""
        if self._last is not None:
            return self._last.total_tokens
        last_input = 2 * whole.input_tokens // self.runs - self._first
        return max(self._first, last_input) + whole.output_tokens


def _usage(counts: Mapping[str, int]) -> TokenUsage:
    """Return the usage. In this API, the input excludes tokens read from the cache or written to it."""
    fresh, read, written, output, thought = (counts.get(name, 0) for name in _NAMES)
    total = fresh + read + written
    return TokenUsage(total, read, output, thought, total + output, cache_write_input_tokens=written)


def _last_run(runs: Any) -> TokenUsage | None:
    """Return the usage of the last run of the model, or None if the server does not state it."""
    for run in reversed(runs) if isinstance(runs, list) else ():
        if isinstance(run, Mapping) and run.get("type") == "message":
            counts = {name: run[name] for name in _NAMES if type(run.get(name)) is int and run[name] >= 0}
            return _usage(counts) if any(counts.values()) else None
    return None
