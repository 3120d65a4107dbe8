"""Error messages of threads: exits of plugins, items of the wrong class, missing plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, get_args

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.toolkit.faults import (
    Label,
    WrongValue,
    advice,
    check_type,
    error_message,
    error_text,
    fact_of,
    kind_of,
    place_of,
    source_place,
)

__all__ = [
    "ITEMS",
    "Label",
    "PluginExit",
    "WrongValue",
    "advice",
    "check_type",
    "checked_items",
    "error_message",
    "error_text",
    "fact_of",
    "kind_of",
    "no_store",
    "place_of",
    "refuse",
    "source_place",
]


class PluginExit(Exception):  # noqa: N818  # the exit of a plugin is an error like any other
    """A plugin tried to end the process, or cancelled itself."""

    plain = True


ITEMS: tuple[type, ...] = get_args(ResponseItem)
"""The classes of the items of a conversation."""


def checked_items(items: Iterable[Any], who: str, source: Any = None) -> tuple[ResponseItem, ...]:
    """Return items of a conversation as a tuple.

    Raises:
        WrongValue: It is not a list, or one of its elements is not an item of a conversation.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        hint = "Pass a list of items, such as [user_message(...)]."
        raise WrongValue(f"{who} is {kind_of(items)}, not a list of items", source, hint=hint)
    whole = tuple(items)
    for item in whole:
        if not isinstance(item, ITEMS):
            text = f"{who} has {kind_of(item)} in it, which is not a conversation item"
            raise WrongValue(text, source, hint="Use user_message(...) for text.")
    return whole


def refuse(expected: str, value: object, method: str) -> NoReturn:
    """Raise the error of a method that was called with a value of the wrong class.

    Raises:
        WrongValue: Always.
    """
    raise WrongValue(f"{method}() takes {expected}, not {kind_of(value)}", hint=f"Pass {expected}.")


def no_store() -> ThreadError:
    """Return the error of a kernel that has no thread store."""
    return ThreadError(
        "no plugin stores threads",
        slug="no-store",
        hint="Enable the plugin `rollout`, or name another store in `[framework] thread_store`.",
    )
