"""Error messages: exceptions of plugins with their place, values of the wrong class, missing plugins."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn, TypeVar, get_args

from codex_framework.contract.errors import CodexError, ThreadError
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.plugins.loading import place_of as source_of

__all__ = [
    "Label",
    "PluginExit",
    "WrongValue",
    "checked",
    "checked_items",
    "described",
    "explained",
    "no_store",
    "place_of",
    "refuse",
    "source_place",
]

T = TypeVar("T")


class WrongValue(TypeError):  # noqa: N818  # a value, not an error of ours
    """A plugin returned or passed something of the wrong class.

    Attributes:
        place: `` (file, line N)`` of the method that returned it. Empty if that is unknown.
    """

    def __init__(self, text: str, source: Any = None) -> None:
        super().__init__(text)
        self.place = "" if source is None else source_place(source)


class PluginExit(Exception):  # noqa: N818  # the exit of a plugin is an error like any other
    """A plugin tried to end the process, or cancelled itself."""


class Label(NamedTuple):
    """The name of a plugin's offer in messages.

    Attributes:
        noun: ``component``, ``interceptor``, ...
    """

    noun: str
    name: str
    plugin: str

    def __str__(self) -> str:
        return f"{self.noun} {self.name!r} of plugin {self.plugin!r}"

    def failed(self, method: str, error: BaseException) -> str:
        """Return the sentence about a method that raised or returned a value of the wrong class."""
        return f"{self}: {method}() failed: {explained(error)}"

    def late(self, method: str, seconds: float, source: Any) -> str:
        """Return the sentence about a method that did not end in time."""
        return f"{self}: {method}() did not end within {seconds:g} s{source_place(source)}"


def checked(value: object, kind: type[T], who: str, source: Any = None) -> T:
    """Return ``value`` if it is a ``kind``.

    Args:
        source: The method that returned it.

    Raises:
        WrongValue: It has another class. The text names ``who`` returned it.
    """
    if not isinstance(value, kind):
        raise WrongValue(f"{who} returned {_kind_of(value)} instead of {kind.__name__}", source)
    return value


_ITEMS: tuple[type, ...] = get_args(ResponseItem)


def checked_items(items: Iterable[Any], who: str, source: Any = None) -> tuple[ResponseItem, ...]:
    """Return items of a conversation as a tuple.

    Raises:
        WrongValue: It is not a list, or one of its elements is not an item of a conversation.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise WrongValue(f"{who} is {_kind_of(items)}, not a list of items", source)
    whole = tuple(items)
    for item in whole:
        if not isinstance(item, _ITEMS):
            text = (
                f"{who} has {_kind_of(item)} in it, which is no item of a conversation; use user_message(...) for text"
            )
            raise WrongValue(text, source)
    return whole


def refuse(expected: str, value: object, method: str) -> NoReturn:
    """Raise the error of a method that was called with a value of the wrong class.

    Raises:
        TypeError: Always.
    """
    raise TypeError(f"{method}() takes {expected}, not {_kind_of(value)}")


def explained(error: BaseException) -> str:
    """Return the text of an exception: fact and hint of a CodexError; class, text and place of any other."""
    if isinstance(error, CodexError):
        return f"{error}. {error.hint}" if error.hint else str(error)
    return f"{described(error)}{place_of(error)}"


def described(error: BaseException) -> str:
    """Return the class and the text of an exception; the text alone for those of this module."""
    if isinstance(error, (WrongValue, PluginExit)):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose text cannot be produced
        return type(error).__name__


def place_of(error: BaseException) -> str:
    """Return the place where an exception was raised, as `` (file, line N)``."""
    if isinstance(error, WrongValue):
        return error.place
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"


def source_place(source: Any) -> str:
    """Return the place where a function, a method or a class is defined, as `` (file, line N)``."""
    path, line = source_of(inspect.unwrap(source) if callable(source) else source)
    return f" ({path}, line {line})" if path else ""


def no_store() -> ThreadError:
    """Return the error of a kernel that has no thread store."""
    return ThreadError(
        "no plugin stores threads",
        slug="no-store",
        hint="Enable the plugin `rollout`, or name another store in `[framework] thread_store`.",
    )


def _kind_of(value: object) -> str:
    return "None" if value is None else type(value).__name__
