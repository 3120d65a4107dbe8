"""Shared parts of commands that serve a client: stdin and stdout for the protocol alone, and an end by signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator

__all__ = ["catch_ending_signals", "reserve_streams"]


def reserve_streams() -> tuple[int, int]:
    """Reserve stdin and stdout, and return their descriptors. Later prints go to stderr."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, sink


@contextlib.contextmanager
def catch_ending_signals() -> Iterator[asyncio.Future[int]]:
    """Catch SIGTERM, SIGINT and SIGHUP in the running loop. The result is the first one's number; later ones change nothing."""
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield signalled
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
