"""What is wrong, in words: exceptions of plugins with their place, values of the wrong class, a plugin that is not there."""

from __future__ import annotations

from typing import TypeVar

from codex_framework.contract.errors import ThreadError

__all__ = ["checked", "described", "no_store", "place_of"]

T = TypeVar("T")


def checked(value: object, kind: type[T], who: str) -> T:
    """Return ``value`` if it is a ``kind``.

    Raises:
        TypeError: It is something else; the text names ``who`` returned it.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{who} returned {type(value).__name__} instead of {kind.__name__}")
    return value


def described(error: BaseException) -> str:
    """Return the class and the text of an exception."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own text cannot be made
        return type(error).__name__


def place_of(error: BaseException) -> str:
    """Return `` (file, line N)`` of where an exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"


def no_store() -> ThreadError:
    """Return the error of a kernel that has no thread store."""
    return ThreadError(
        "no plugin stores threads",
        slug="no-store",
        hint="Enable the plugin `rollout`, or name another store in `[framework] thread_store`.",
    )
