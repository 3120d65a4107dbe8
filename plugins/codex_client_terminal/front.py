"""The entry of the terminal. It imports little, so that the composer is on the screen before anything else is loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_framework.toolkit.front_ends import FrontEndStart

__all__ = ["main"]


def main(start: FrontEndStart) -> int:
    """Work with a person at the terminal. Return the exit status.

    Raises:
        CodexError: The configuration is invalid, or the thread cannot be started. The terminal is as it was before.
    """
    if os.environ.get("TERM", "dumb") == "dumb":
        from codex_client_terminal.plain import run_plain

        return run_plain(start)
    from codex_client_terminal.composer import Composer
    from codex_client_terminal.screen import Screen

    screen = Screen()
    screen.open()
    try:
        composer = Composer({}, hint="Ask the agent to do something")
        lines, cursor = composer.lines(screen.width)
        screen.draw([], [[], *lines, []], (cursor[0] + 1, cursor[1]))
        from codex_client_terminal.app import run_app

        return run_app(start, screen, composer)
    finally:
        screen.close()
