"""Storms: generated schedules of messages that go wrong."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_framework.commands.process.watcher import WATCHER
from codex_plugin_app_server import outbox, requests
from codex_plugin_app_server.addresses import Access, TcpAddress
from codex_plugin_app_server.kernels import Kernels
from codex_plugin_app_server.methods import METHODS
from codex_plugin_app_server.server import Server
from codex_plugin_app_server.sockets import listen

from .storm import Plugin, Storm

COUNTS = {"quick": 12, "thorough": 400, "deep": 5000}
"""Schedules at each ``--depth``."""

BATCH = 100
"""Schedules of one server."""


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[tuple[Server, Plugin, Sequence[str]]]:
    """Run a server with a scripted model on a unix socket and on a port."""
    environ = {"CODEX_HOME": str(home), "HOME": str(home), "PATH": os.environ["PATH"]}
    overrides = ['model="gpt-5.5"', 'model_provider="scripted"']
    plugin = Plugin()
    async with AsyncExitStack() as stack:
        kernels = await stack.enter_async_context(
            Kernels.open(home, environ=environ, overrides=overrides, plugins=[plugin])
        )
        server = Server(kernels, METHODS)
        addresses: Sequence[Any] = (home / "s", TcpAddress("127.0.0.1", 0))
        urls = [await stack.enter_async_context(listen(each, Access(), server.serve)) for each in addresses]
        yield server, plugin, urls


def descriptors() -> set[str]:
    """Return what is open."""
    return {f"{each.name} {each.readlink()}" for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


async def run_storms(seeds: Sequence[int]) -> None:
    """Run schedules with one server. Check in the end that nothing is left of them."""
    with tempfile.TemporaryDirectory(prefix="cx") as folder:  # a path of pytest may be too long for a socket
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        WATCHER.ensure()  # it lasts as long as the process
        before = descriptors()
        async with opened(home) as (server, plugin, urls):
            for seed in seeds:
                try:
                    await Storm(server, plugin, urls, work, seed).run()
                except BaseException as error:
                    error.add_note(f"the seed is {seed}")
                    raise
                plugin.model.requests.clear()
        for _ in range(1000):  # processes may still be ending
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            left = descriptors() - before
            if not tasks and not left:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"tasks {tasks} and descriptors {left} are left")


def test_storms_pass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(outbox, "_TOO_MANY_BYTES", 4 << 20)
    count = COUNTS[request.config.getoption("--depth")]
    size = min(BATCH, count // 2)
    for first in range(0, count, size):
        monkeypatch.setattr(requests, "ABSENCE_S", 600 if first % (2 * size) else 0.02)
        asyncio.run(run_storms(range(first, first + size)))
