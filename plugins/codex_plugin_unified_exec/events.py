"""The events about commands that run in the background."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg, Value

__all__ = ["BackgroundTerminal", "BackgroundTerminalTerminatedEvent", "BackgroundTerminalsEvent"]


class BackgroundTerminal(Value, kw_only=True):
    """A command that runs in the background.

    Attributes:
        process_id: Its id, as in the items of commands.
        call_id: The call that started it.
        command: Its script.
    """

    process_id: int
    call_id: str
    command: str
    cwd: str


class BackgroundTerminalsEvent(EventMsg):
    """The commands that run in the background, by their ids."""

    type: ClassVar[Literal["background_terminals"]] = "background_terminals"
    terminals: tuple[BackgroundTerminal, ...] = ()


class BackgroundTerminalTerminatedEvent(EventMsg):
    """The answer to ``terminate_background_terminal``: whether such a command was running."""

    type: ClassVar[Literal["background_terminal_terminated"]] = "background_terminal_terminated"
    terminated: bool
