"""Additions of plugins to the terminal: slash commands, widgets for calls of their tools, and segments of the status line.

A plugin's component asks for the service ``terminal`` in its ``start``. It needs no import of this package::

    TERMINAL: ServiceKey[Any] = ServiceKey("terminal")

    class Greeting(Component):
        name = "greeting"
        requires = (TERMINAL,)

        async def start(self, kernel):
            terminal = kernel.service(TERMINAL)
            terminal.add_command("greet", "Greet somebody.", self.greet)
            terminal.add_widget("weather", lambda item: [[("☀ ", "yellow"), (item["arguments"]["city"], "bold")]])
            terminal.add_segment("clock", lambda view: "12:00")

        async def greet(self, view, argument):
            view.print(f"Hello {argument}")

A command is an asynchronous function of the view (:class:`~codex_client_terminal.view.View`) and of the text after the command.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from codex_client_terminal.items import Item, Widget

__all__ = ["Extensions", "Segment", "SlashCommand"]

_NAME = re.compile(r"[a-z][a-z0-9_:-]{0,40}")

Segment = Callable[[Any], str]
"""Returns a part of the status line. It is called at each drawing, so it must be cheap."""


class SlashCommand(NamedTuple):
    """A command that the person types after a slash.

    Attributes:
        during_turn: Whether it can be used while a turn runs.
    """

    name: str
    about: str
    run: Callable[[Any, str], Awaitable[None]]
    during_turn: bool = True


class Extensions:
    """The added commands, widgets and segments. The service ``terminal``."""

    def __init__(self) -> None:
        self.commands: dict[str, SlashCommand] = {}
        self.widgets: dict[str, Callable[[Item], Any]] = {}
        self.segments: dict[str, Segment] = {}

    def add_command(
        self, name: str, about: str, run: Callable[[Any, str], Awaitable[None]], *, during_turn: bool = True
    ) -> None:
        """Add a slash command.

        Args:
            name: Without the slash: small letters, digits and dashes.
            about: A sentence about it.
            run: Called with the view and the text after the command.
            during_turn: Whether it can be used while a turn runs.

        Raises:
            ValueError: The name is invalid or taken, or something is not of the right type.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a command: use small letters, digits and dashes")
        if name in self.commands:
            raise ValueError(f"the command /{name} exists already")
        if not callable(run) or not isinstance(about, str):
            raise ValueError(f"the command /{name} needs a text and a function")
        self.commands[name] = SlashCommand(name, about, run, during_turn)

    def add_widget(self, tool: str, widget: Widget) -> None:
        """Show the calls of a tool by a function that returns lines for the call's item.

        Raises:
            ValueError: The tool has one, or it is no function.
        """
        if tool in self.widgets or not callable(widget):
            raise ValueError(f"the tool {tool} has a widget already, or this is no function")
        self.widgets[tool] = widget

    def add_segment(self, name: str, segment: Segment) -> None:
        """Add a part to the status line.

        Raises:
            ValueError: The name is taken, or it is no function.
        """
        if name in self.segments or not callable(segment):
            raise ValueError(f"the segment {name} exists already, or this is no function")
        self.segments[name] = segment


def check_widget(widget: Widget, item: Mapping[str, Any] | None = None) -> list[str]:
    """Return the problem of a widget, which must show usual and unusual calls and return lines of text and style."""
    usual = {
        "type": "McpToolCall",
        "id": "c1",
        "server": "p",
        "tool": "t",
        "arguments": {"a": 1},
        "status": "completed",
        "result": {"content": [{"type": "text", "text": "ok"}]},
    }
    odd = {
        "type": "McpToolCall",
        "id": "c2",
        "server": "p",
        "tool": "t",
        "arguments": "no JSON",
        "status": "failed",
        "error": {"message": "\x1b[31m"},
    }
    problems = []
    for call in (usual, odd) if item is None else (item,):
        try:
            lines = widget(call)
        except Exception as error:
            problems.append(f"it raised {type(error).__name__} for a call with the status {call['status']}: {error}")
            continue
        if isinstance(lines, str):
            continue
        if not isinstance(lines, list) or not all(
            isinstance(line, list)
            and all(
                isinstance(span, tuple) and len(span) == 2 and all(isinstance(part, str) for part in span)
                for span in line
            )
            for line in lines
        ):
            problems.append("it must return text, or a list of lines, each a list of (text, style)")
    return problems
