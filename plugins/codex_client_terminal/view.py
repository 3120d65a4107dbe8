"""The functions of the terminal that commands use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from codex_client_terminal.text import Line

if TYPE_CHECKING:
    from codex_client_terminal.extensions import SlashCommand
    from codex_client_terminal.pickers import Entry
    from codex_client_terminal.session import Session
    from codex_client_terminal.transcript import Past, Transcript
    from codex_client_terminal.vi import ViKeys
    from codex_framework import ThreadStore

__all__ = ["View"]


class View(Protocol):
    """The terminal, as commands see it."""

    vi_keys: ViKeys | None
    """The keys of vi, if the person wants them."""

    @property
    def session(self) -> Session:
        """The kernel and the thread."""
        ...

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        ...

    @property
    def commands(self) -> Mapping[str, SlashCommand]:
        """All slash commands by name."""
        ...

    @property
    def theme(self) -> str:
        """The name of the theme."""
        ...

    def set_theme(self, name: str) -> None:
        """Use a theme for everything that is drawn from now on. Raises ConfigError."""
        ...

    def print(self, text: str | Sequence[Line], style: str = "") -> None:
        """Print text, or lines of (text, style), into the conversation. The model does not see it."""
        ...

    async def choose(self, title: str, entries: Sequence[Entry], *, chosen: int = 0) -> Any:
        """Let the person choose from a list. Return the value, or None."""
        ...

    async def choose_session(self, title: str, store: ThreadStore, home: str, *, folder: str | None) -> str | None:
        """Let the user choose a stored session, and return its id, or None."""
        ...

    async def read(
        self,
        title: str,
        lines: Iterable[Line],
        *,
        running: Callable[[int], list[Line]] = ...,
        follow: Callable[[Callable[[Iterable[Line]], None]], Awaitable[None]] | None = None,
    ) -> None:
        """Show lines to read and scroll, until the user goes back.

        Args:
            running: Returns the lines for running work.
            follow: Runs meanwhile. It adds lines with the function that it gets.
        """
        ...

    def send(self, text: str) -> None:
        """Start a turn with a message, or give it to the running turn."""
        ...

    def suggest(self, text: str) -> None:
        """Let the person write a message that begins as this text."""
        ...

    def show_past(self, past: Past | None) -> None:
        """Print a stored conversation, or begin an empty one, instead of the current one."""
        ...

    def copy(self, text: str) -> None:
        """Put a text into the clipboard of the terminal."""
        ...

    def erase(self) -> None:
        """Erase the screen."""
        ...

    def quit(self) -> None:
        """Leave the terminal."""
        ...
