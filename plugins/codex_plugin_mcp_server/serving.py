"""The process of the server: its kernel, its transport, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, BinaryIO

from codex_framework import Component, Kernel, PluginContext, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.toolkit.serving import catch_ending_signals
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_mcp_server.arguments import REPLY, START
from codex_plugin_mcp_server.conversations import Conversations
from codex_plugin_mcp_server.exposing import Exposing
from codex_plugin_mcp_server.options import Options
from codex_plugin_mcp_server.server import Service, make_server
from codex_plugin_mcp_server.toolbox import Contexts
from codex_plugin_mcp_server.wires import Wires, own_wires

__all__ = ["serve", "serve_stdio", "serving"]

LEFT_S = 2.0
"""How long tasks may take to end after everything is closed, in seconds."""

_SIGNALLED = 128


def serve(options: Options, plugin: PluginContext) -> int:
    """Serve until the client has gone or a signal comes, and return the exit status.

    Raises:
        CodexError: The configuration is invalid, or the address cannot be used.
    """
    environ = dict(os.environ)
    if options.token_var is not None:
        os.environ.pop(options.token_var, None)  # children of plugins inherit these, too
    if options.address is not None:
        from codex_plugin_mcp_server.http import listen, serve_http

        with listen(options.address) as listener:
            return _run(
                serving(options, environ, lambda service: serve_http(make_server(service), options, listener), plugin)
            )
    with own_wires() as (source, sink):
        return _run(serving(options, environ, lambda service: serve_stdio(service, source, sink), plugin))


async def serving(
    options: Options,
    environ: Mapping[str, str],
    transport: Callable[[Service], Coroutine[Any, Any, None]],
    plugin: PluginContext | None = None,
) -> int:
    """Serve until the transport ends or a signal comes, and return the exit status. Raises as :func:`serve` does.

    Args:
        environ: The variables of the kernel and its commands, which do not get the token.
        plugin: The plugin's context, whose configuration is used. By default, the configuration of the current folder.
    """
    kept = {name: value for name, value in environ.items() if name != options.token_var}
    with catch_ending_signals() as signalled:
        bridge = Bridge()
        kernel = await Kernel.create(plugin, environ=kept, plugins=(*options.plugin_files, bridge))
        known = _warn(kernel.registry.warnings)
        async with kernel:
            if options.config:
                await (await kernel.start_thread(config=options.config, ephemeral=True)).shutdown()  # checks the keys
            service = Service(
                Conversations(kernel, options.config) if options.agent else None,
                await _exposing(kernel, bridge.contexts, options) if options.tools else None,
            )
            try:
                status = await _until(signalled, transport(service))
            finally:
                await service.aclose()
                await _shut_down(kernel)
        _warn(warning for warning in kernel.registry.warnings if warning not in known)
        return status


async def _shut_down(kernel: Kernel) -> None:
    """Shut down all threads. No client hears any more what could not be saved, so stderr does."""
    for thread in list(kernel.threads.values()):
        rest = thread.events(answers=False)
        await thread.shutdown()
        _warn([event.msg.message async for event in rest if isinstance(event.msg, WarningEvent)])


def _warn(warnings: Iterable[str]) -> set[str]:
    """Print warnings to stderr, and return them."""
    shown = set(warnings)
    for warning in sorted(shown):
        print(f"warning: {printable(warning)}", file=sys.stderr, flush=True)
    return shown


class Bridge:
    """The plugin with which the server reaches into the threads for tools."""

    def __init__(self) -> None:
        self.contexts = Contexts()

    @hookimpl
    def codex_components(self) -> Iterable[Component]:
        """Offer the component that keeps the contexts."""
        return [self.contexts]


async def _exposing(kernel: Kernel, contexts: Contexts, options: Options) -> Exposing:
    exposing = Exposing(
        kernel,
        contexts,
        patterns=options.tools,
        config=options.config,
        reserved=(START, REPLY) if options.agent else (),
    )
    await exposing.check()
    return exposing


async def serve_stdio(service: Service, source: BinaryIO, sink: BinaryIO) -> None:
    """Serve one client until it closes its end."""
    from mcp.server.stdio import stdio_server

    server = make_server(service)
    with contextlib.closing(Wires(source, sink)) as made:
        wires: Any = made
        async with stdio_server(wires, wires) as (read, write):
            await server.run(read, write, server.create_initialization_options())


async def _until(signalled: asyncio.Future[int], work: Coroutine[Any, Any, None]) -> int:
    """Run to the end of the work, or to a signal. Return the exit status."""
    task = asyncio.ensure_future(work)
    awaited: set[asyncio.Future[Any]] = {task, signalled}
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=LEFT_S)
        return _SIGNALLED + signalled.result()
    task.result()
    return 0


def _run(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine in a new loop, and wait only briefly for tasks that ignore their cancellation."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(_end_tasks())
        loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LEFT_S)
