"""Never run, only type-checked: what the decorators and roles mean to a type checker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_type

from codex_framework import (
    FreeformSpec,
    FunctionSpec,
    Kernel,
    Notification,
    Notifier,
    Tool,
    ToolContext,
    freeform_tool,
    hookimpl,
    tool,
)


@tool
async def count_words(path: str, context: ToolContext) -> int:
    """Count words."""
    return len((await context.read_text(path)).split())


@tool(name="plus", parallel_safe=True, timeout_s=1.0)
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@freeform_tool(grammar="start: /.+/")
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


async def decorated_functions_keep_their_types(context: ToolContext) -> None:
    assert_type(add(1, b=3), int)
    assert_type(await count_words("a", context), int)
    assert_type(shout("a"), str)
    assert_type(add.spec, FunctionSpec)
    assert_type(shout.spec, FreeformSpec)
    add("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    return [count_words, add, shout]


class Bell(Notifier):
    name = "bell"

    def notify(self, notification: Notification) -> None:
        print(notification.type)


@hookimpl
def codex_notifiers() -> Iterable[Notifier]:
    return [Bell()]


async def a_program_of_ones_own() -> str | None:
    async with await Kernel.create() as kernel:
        thread = await kernel.start_thread()
        result = await thread.run("Hello!")
        return result.final_message
