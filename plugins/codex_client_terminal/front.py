"""The entry of the terminal. It imports little, so that the composer is on the screen before anything else is loaded."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from codex_client_terminal.composer import Composer
    from codex_client_terminal.keys import Key, Keys, Paste
    from codex_client_terminal.screen import Screen
    from codex_framework.toolkit.front_ends import FrontEndStart

__all__ = ["main"]

EarlyKeys: TypeAlias = "tuple[Keys, list[Key | Paste]]"
"""The parser, with incomplete input, and unused keys."""


def main(start: FrontEndStart) -> int:
    """Work with a user at the terminal. Return the exit status.

    Raises:
        CodexError: The configuration is invalid, or the thread cannot be started. The terminal is restored.
    """
    status = None
    if os.environ.get("TERM", "dumb") != "dumb" and os.isatty(1):
        status = _run_on_screen(start)
    if status is None:
        from codex_client_terminal.plain import run_plain

        status = run_plain(start)
    return status


def _run_on_screen(start: FrontEndStart) -> int | None:
    """Return the exit status, or None if the person wants plain lines. Raises CodexError."""
    from codex_client_terminal.composer import Composer
    from codex_client_terminal.screen import Screen

    screen = Screen()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)  # until the application's loop handles them
    try:
        screen.open()
        composer = Composer({}, hint="Ask the agent to do something")
        _draw(screen, composer)
        early = _take_early_keys(screen, composer)
        _draw(screen, composer)
        from codex_client_terminal.app import run_app

        return run_app(start, screen, composer, early)
    finally:
        screen.close()


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _draw(screen: Screen, composer: Composer) -> None:
    lines, cursor = composer.lines(screen.width)
    screen.draw([], [[], *lines, []], (cursor[0] + 1, cursor[1]))


def _take_early_keys(screen: Screen, composer: Composer) -> EarlyKeys:
    """Display the text that was typed before the terminal was taken, and return the keys from the first other one on."""
    from codex_client_terminal.keys import Key, Keys

    keys = Keys(screen.encoding)
    if not select.select([screen.source], [], [], 0)[0]:
        return keys, []
    data = os.read(screen.source, 65_536).replace(b"\n", b"\r")  # in which Enter has become a line feed
    rest: list[Key | Paste] = []
    for key in keys.feed(data):
        if rest or not (isinstance(key, Key) and key.is_text):
            rest.append(key)
        else:
            composer.press(key)
    return keys, rest
