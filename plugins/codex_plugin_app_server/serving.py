"""Runs the server: a kernel, the transports, and the end by a signal or by the client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_app_server.methods import METHODS
from codex_plugin_app_server.server import Server
from codex_plugin_app_server.stdio import StdioTransport, take_stdio

__all__ = ["serve_stdio"]


def serve_stdio(overrides: Sequence[str], plugin_files: Sequence[Path]) -> int:
    """Serve the client that started this process, and return the exit status.

    Raises:
        CodexError: The configuration is invalid, or the kernel cannot be created.
    """
    source, sink = take_stdio()
    return asyncio.run(_serve_stdio(source, sink, overrides, plugin_files))


async def _serve_stdio(source: int, sink: int, overrides: Sequence[str], plugin_files: Sequence[Path]) -> int:
    config = load_config(cwd=Path.cwd(), environ=os.environ, overrides=overrides)
    with _signals() as signalled:
        async with await Kernel.create(config, plugins=plugin_files) as kernel:
            _warn(kernel.registry.warnings)
            server = Server(kernel, METHODS)
            client = asyncio.ensure_future(server.serve(await StdioTransport.open(source, sink)))
            try:
                await asyncio.wait((client, signalled), return_when=asyncio.FIRST_COMPLETED)
            finally:
                client.cancel()
                await asyncio.gather(client, return_exceptions=True)
                await server.aclose()
    return 0


def _warn(warnings: Iterable[str]) -> None:
    for warning in sorted(set(warnings)):
        print(f"warning: {printable(warning)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Future[int]]:
    """Catch the signals that end the process. The result is the first one's number; later ones change nothing."""
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
