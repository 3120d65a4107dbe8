"""Runs the server: kernels, the transports, and the end by a signal or by the client."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from codex_framework.toolkit.serving import catch_ending_signals, reserve_streams
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_app_server.addresses import Access, Address, Stdio, TcpAddress, UnixAddress
from codex_plugin_app_server.kernels import Kernels
from codex_plugin_app_server.methods import METHODS
from codex_plugin_app_server.server import Server
from codex_plugin_app_server.stdio import StdioTransport

__all__ = ["serve"]


def serve(address: Address, access: Access, overrides: Sequence[str], plugin_files: Sequence[Path]) -> int:
    """Serve the client that started this process, or clients that connect, and return the exit status.

    Raises:
        CodexError: The configuration is invalid, the kernel cannot be created, or it is not possible to listen at the address.
    """
    if isinstance(address, Stdio):
        source, sink = reserve_streams()
        return asyncio.run(_serve(lambda server: _serve_stdio(server, source, sink), overrides, plugin_files))
    return asyncio.run(_serve(lambda server: _serve_sockets(server, address, access), overrides, plugin_files))


async def _serve(
    run: Callable[[Server], Awaitable[None]], overrides: Sequence[str], plugin_files: Sequence[Path]
) -> int:
    with catch_ending_signals() as signalled:
        async with Kernels.open(Path.cwd(), environ=os.environ, overrides=overrides, plugins=plugin_files) as kernels:
            _warn(kernels.base.registry.warnings)
            server = Server(kernels, METHODS)
            serving = asyncio.ensure_future(run(server))
            try:
                await asyncio.wait((serving, signalled), return_when=asyncio.FIRST_COMPLETED)
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
                await server.aclose()
            if not serving.cancelled():
                serving.result()
    return 0


async def _serve_stdio(server: Server, source: int, sink: int) -> None:
    await server.serve(await StdioTransport.open(source, sink))


async def _serve_sockets(server: Server, address: TcpAddress | UnixAddress, access: Access) -> None:
    from codex_plugin_app_server.sockets import listen

    place = address if isinstance(address, TcpAddress) else address.located(Path(server.home))
    async with listen(place, access, server.serve) as url:
        print(f"codex-framework app-server\n  listening on: {url}", file=sys.stderr)
        if isinstance(address, TcpAddress):
            base = url.replace("ws://", "http://", 1)
            print(f"  readyz: {base}/readyz\n  healthz: {base}/healthz", file=sys.stderr)
        sys.stderr.flush()
        await asyncio.Event().wait()


def _warn(warnings: Iterable[str]) -> None:
    for warning in sorted(set(warnings)):
        print(f"warning: {printable(warning)}", file=sys.stderr, flush=True)
