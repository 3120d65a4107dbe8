"""The known facts about each thread, for the attributes of its records."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

from codex_plugin_otel.worker.measured import Measured

__all__ = ["Threads"]

_KEPT = 10_000
"""Threads that are remembered; the oldest are forgotten first."""


class Threads:
    """The threads of a kernel."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._fixed = {"app.version": settings["version"]}
        self._terminal = settings["terminal"]
        self._known: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._results: Counter[str] = Counter()

    def learn(self, measured: Measured) -> None:
        """Record the facts of a measurement about its thread."""
        said = measured.attributes
        if measured.thread_id and "model" in said:
            known = self._known.setdefault(measured.thread_id, {})
            known.update({name: said[name] for name in ("model", "originator", "session_source") if name in said})
            while len(self._known) > _KEPT:
                forgotten, _ = self._known.popitem(last=False)
                self._results.pop(forgotten, None)

    def common(self, thread_id: str) -> dict[str, str]:
        """Return the attributes that every log record of a thread has."""
        known = self._known.get(thread_id, {})
        common = {
            "conversation.id": thread_id,
            **self._fixed,
            "originator": known.get("originator"),
            "terminal.type": self._terminal,
            "model": known.get("model"),
            "slug": known.get("model"),
        }
        return {name: value for name, value in common.items() if value}

    def labels(self, thread_id: str) -> dict[str, str]:
        """Return the attributes that every metric of a thread has."""
        return {**self._fixed, **self._known.get(thread_id, {})}

    def next_result(self, thread_id: str) -> int:
        """Return the number of the next tool result of a thread, from 1."""
        self._results[thread_id] += 1
        return self._results[thread_id]
