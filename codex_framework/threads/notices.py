"""Warnings about plugins in one thread, each cause once, including calls that take too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import CoroutineType
from typing import Any, TypeVar

from codex_framework.threads.faults import Label, PluginExit, WrongValue, error_text, source_place

__all__ = ["FIRST_SLOW_S", "SLOW_S", "Notices"]

T = TypeVar("T")

SLOW_S = 0.05
"""How long a plain call of a plugin may block the event loop before it is reported, in seconds."""

FIRST_SLOW_S = 0.25
"""The same for the first call that takes longer. It may import something, or the machine may be busy."""


class Notices:
    """Warnings about plugins in one thread, each emitted once.

    Args:
        warn: Warns the clients of the thread, with a sentence and what it is about.
    """

    _told: frozenset[str] = frozenset()
    _forgiven: frozenset[tuple[Label, str]] = frozenset()

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self._warn = warn

    def tell(self, text: str, *, cause: str | None = None) -> None:
        """Emit a warning, unless it was emitted before.

        Args:
            cause: The key by which repetitions are recognised. By default, the sentence itself.
        """
        cause = cause or text
        if cause not in self._told:
            self._told |= {cause}
            self._warn(text, "plugin-failed")

    def call(self, label: Label, method: str, call: Callable[..., T], *arguments: Any) -> T:
        """Call a plain method of a plugin, and warn if it was slow.

        Raises:
            WrongValue: It is async.
            PluginExit: It raised ``SystemExit``.
            Exception: Whatever the method raises.
        """
        started = time.monotonic()
        try:
            result = call(*arguments)
        except SystemExit as error:
            raise PluginExit(error_text(error)).with_traceback(error.__traceback__) from error
        finally:
            took = time.monotonic() - started
            if took > SLOW_S:
                self._slow(label, method, took, call)
        if isinstance(result, CoroutineType):
            result.close()
            raise WrongValue(f"{method} is async, but it is called without await", call, hint=f"Write `def {method}`.")
        return result

    def _slow(self, label: Label, method: str, took: float, call: Callable[..., object]) -> None:
        if took <= FIRST_SLOW_S and (label, method) not in self._forgiven:
            self._forgiven |= {(label, method)}
            return
        self.tell(
            f"{label}: {method}() took {took * 1000:.0f} ms{source_place(call)} and blocked the event loop. Do slow work once, in "
            "an async method, and keep its result.",
            cause=f"slow {label} {method}",
        )
