"""The effect of the sandbox on the commands of a tool call, for ``codex.sandbox_outcome``."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from codex_plugin_otel.worker.measured import Measured

__all__ = ["Calls"]

_KEPT = 1_000
"""Calls whose commands are remembered; the oldest are forgotten first."""


class Calls:
    """The commands of running calls."""

    def __init__(self) -> None:
        self._commands: OrderedDict[tuple[str, str], list[Measured]] = OrderedDict()

    def command(self, measured: Measured) -> None:
        """Remember a command that has ended."""
        key = (measured.thread_id, str(measured.attributes.get("call_id")))
        self._commands.setdefault(key, []).append(measured)
        while len(self._commands) > _KEPT:
            self._commands.popitem(last=False)

    def outcome(self, call: Measured) -> dict[str, Any]:
        """Return the effect of the sandbox on the commands of an ended call. Empty if it had no special effect."""
        commands = self._commands.pop((call.thread_id, str(call.attributes.get("call_id"))), [])
        if not commands:
            return {}
        first, last = commands[0], commands[-1]
        if first.attributes.get("denied") and last is not first:
            durations = {"initial_duration_ms": first.duration_ms, "escalated_duration_ms": last.duration_ms}
            return {"outcome": "escalated", **durations}
        outcome = _outcome(last)
        return {"outcome": outcome, "initial_duration_ms": last.duration_ms} if outcome else {}


def _outcome(command: Measured) -> str:
    if command.attributes.get("timed_out"):
        return "timed_out"
    if command.attributes.get("denied"):
        return "denied"
    code = command.attributes.get("exit_code", 0)
    return "signal" if code < 0 or code > 128 else ""
