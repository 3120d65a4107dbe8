"""The list of sessions alone, for commands that need one and were given none."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_client_terminal.app import App
from codex_client_terminal.capture import captured_output
from codex_client_terminal.composer import Composer
from codex_client_terminal.keys import Keys
from codex_client_terminal.screen import Screen
from codex_framework import ThreadStore

__all__ = ["choose_session"]


def choose_session(title: str, store: ThreadStore, home: str, folder: str) -> str | None:
    """Let the user at the terminal choose a stored session. Sessions of a folder come first. Return its id, or None."""
    screen = Screen()
    try:
        screen.open()
        with captured_output() as (terminal, output):
            screen.sink = terminal
            app = _Chooser(screen, output, (title, store, home, folder))
            asyncio.run(app.run(()))
            return app.chosen
    finally:
        screen.close()


class _Chooser(App):
    """The terminal without a conversation."""

    def __init__(self, screen: Screen, output: int, asked: tuple[str, ThreadStore, str, str]) -> None:
        super().__init__(None, screen, Composer({}), output, Keys())  # type: ignore[arg-type]  # nothing is started
        self._asked = asked
        self.chosen: str | None = None

    async def _open(self) -> None:
        title, store, home, folder = self._asked
        self.chosen = await self.choose_session(title, store, home, folder=folder)
        self.quit()

    def _status(self) -> str:
        return ""

    def _draw(self, **options: Any) -> None:
        if self._views or options:  # the composer has nothing to do here
            super()._draw(**options)
