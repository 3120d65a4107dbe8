"""Exceptions of plugins that cannot be told: their ``__str__`` raises, or their ``__init__`` sets nothing."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

import codex_framework
from codex_framework import (
    CodexError,
    CommandPolicy,
    ContextSource,
    FatalToolError,
    Interceptor,
    ModelError,
    Observer,
    PluginError,
    Status,
    StopTurn,
    ToolContext,
    ToolError,
    ToolRefused,
    tool,
)
from codex_framework.contract import errors
from codex_framework.contract.errors import described
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.testing import call, say


class Unreadable(Exception):
    def __str__(self):
        raise ValueError("no text")


def unreadable(base):
    """An error of the tree whose text fails and whose ``__init__`` does not call the one of its base."""

    def __init__(self, number):
        self.number = number

    def __str__(self):
        raise ValueError("no text")

    return type(f"Odd{base.__name__}", (base,), {"__init__": __init__, "__str__": __str__})


TREE = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CodexError)),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("base", TREE)
def test_every_error_of_the_tree_has_its_attributes_and_a_text(base):
    kind = unreadable(base)
    error = kind(3)
    assert str(error) == kind.__name__
    documented = [line.split(":")[0].strip() for line in (base.__doc__ or "").partition("Attributes:")[2].splitlines()]
    for name in ("fact", "hint", "slug", *(name for name in documented if name.isidentifier())):
        assert hasattr(error, name)


def test_a_text_that_can_be_read_stays():
    class Own(ToolError):
        def __str__(self):
            return f"own {self.fact}"

    class Derived(Own):
        """Inherits the text."""

    assert (str(Own("words")), str(Derived("words")), described(Own("words"))) == (
        "own words",
        "own words",
        "Own: own words",
    )
    assert (described(Unreadable()), described(ValueError())) == ("Unreadable", "ValueError")


KINDS = (Unreadable, *(unreadable(base) for base in (ToolError, ToolRefused, CodexError, ModelError, PluginError)))


def made(kind):
    return kind() if kind is Unreadable else kind(3)


def played(thread_with, *replies, **offers):
    async def story():
        async with thread_with(**offers) as thread:
            return await thread.turn("Hi!", *replies), list(thread.requests), list(thread.warnings)

    return asyncio.run(asyncio.wait_for(story(), 20))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_that_raises_it_is_news_for_the_model(thread_with, kind):
    @tool
    def odd() -> str:
        """Raise."""
        raise made(kind)

    result, requests, _ = played(thread_with, call("odd"), say("Go on."), tools=[odd])
    assert (result.status, result.final_message) == (Status.COMPLETED, "Go on.")
    assert kind.__name__ in str(requests[-1].prompt.items[-1])


@pytest.mark.parametrize("kind", [StopTurn, FatalToolError])
def test_a_tool_that_ends_the_turn_with_it_ends_the_turn(thread_with, kind):
    odd = unreadable(kind)

    @tool
    def stop() -> str:
        """Raise."""
        raise odd(3)

    result, _, _ = played(thread_with, call("stop"), say("Not reached."), tools=[stop])
    assert result.final_message != "Not reached."
    assert odd.__name__ in str(result) or result.status is Status.COMPLETED


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_source_that_raises_it_is_a_warning(thread_with, kind):
    class Odd(ContextSource):
        name = "odd"

        def fragments(self, facts):
            raise made(kind)

    result, _, warnings = played(thread_with, say("Hello."), context=[Odd()])
    assert result.final_message == "Hello."
    assert any("context source 'odd'" in text and kind.__name__ in text for text in warnings)


@pytest.mark.parametrize("kind", KINDS)
def test_other_roles_that_raise_it_leave_the_thread_alone(thread_with, kind):
    class Watcher(Observer):
        name = "watcher"

        def observe(self, thread_id, event):
            raise made(kind)

    class Policy(CommandPolicy):
        name = "policy"

        def judge(self, request, facts):
            raise made(kind)

    class Guard(Interceptor):
        name = "guard"

        async def before_tool(self, call, context):
            raise made(kind)

        async def after_turn(self, outcome, context):
            raise made(kind)

    @tool
    async def echo(context: ToolContext) -> str:
        """Run a command."""
        return (await context.run(["echo", "hi"])).stdout

    async def watched():
        async with thread_with(tools=[echo], observers=[Watcher()], policies=[Policy()]) as thread:
            result = await thread.turn("Hi!", call("echo"), say("Hello."))
            while "muted" not in (await thread.until(WarningEvent)).message:  # told by the thread of the observer
                pass
            return result, list(thread.requests)

    result, requests = asyncio.run(asyncio.wait_for(watched(), 20))
    assert result.final_message == "Hello."
    assert "policy" in str(requests[-1].prompt.items[-1])
    result, _, _ = played(thread_with, call("echo"), say("Hello."), tools=[echo], interceptors=[Guard()])
    assert result.status in (Status.COMPLETED, Status.FAILED)
    assert "the turn failed" not in str(result.error)


def test_no_handler_of_anything_puts_the_exception_into_a_text_itself():
    """``described`` and ``explained`` are safe; ``str(error)`` of a plugin's exception is not."""
    root = Path(codex_framework.__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}"
        for room in ("threads", "commands", "loader", "testing")
        for path in sorted((root / room).rglob("*.py"))
        for line in unsafe_lines(ast.parse(path.read_text()))
    ]
    assert found == []


def unsafe_lines(tree):
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not any(isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException") for kind in caught):
            continue
        for node in (node for statement in handler.body for node in ast.walk(statement)):
            shown = isinstance(node, ast.FormattedValue) and node.value
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
                shown = node.args and node.args[0]
            if isinstance(shown, ast.Name) and shown.id == handler.name:
                yield node.lineno


def test_the_search_for_such_handlers_finds_them():
    code = "try:\n    a()\nexcept (OSError, Exception) as error:\n    print(f'{error}', str(error))\n"
    assert list(unsafe_lines(ast.parse(code))) == [4, 4]
