"""What the tests of careless plugins share."""

from __future__ import annotations

import asyncio
import inspect


def play(story, within_s=60):
    """Run a story; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(story(), within_s))


def place(function):
    """Return how the place of a function is told."""
    code = inspect.unwrap(function).__code__
    return f" ({code.co_filename}, line {code.co_firstlineno})"


async def ignore_cancellation():
    """Go on for a while, whoever cancels."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.5
    while loop.time() < end:
        try:
            await asyncio.sleep(end - loop.time())
        except asyncio.CancelledError:
            continue
