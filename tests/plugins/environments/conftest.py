"""A real exec-server for the tests: the one of Codex."""

from __future__ import annotations

import asyncio
import contextlib
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest


class Machine:
    """What stands for another machine: folders of its own, and a program that serves it."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary = binary
        self.home = folder / "box-home"
        self.work = folder / "box-work"
        self.home.mkdir()
        self.work.mkdir()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serve at a socket, and yield its address."""
        env = {**os.environ, "HOME": str(self.home), "CODEX_HOME": str(self.home)}
        process = await asyncio.create_subprocess_exec(
            self.binary, "exec-server", "--listen", "ws://127.0.0.1:0", stdout=PIPE, stderr=PIPE, stdin=PIPE, env=env
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(20):
                while not (line := (await process.stdout.readline()).decode()).startswith("ws://"):
                    assert line, "the server has ended"
            yield line.strip()
        finally:
            process.terminate()
            await process.wait()

    @contextlib.asynccontextmanager
    async def relay(self, url: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
        """Stand between a client and a server. Yield the address, and what cuts all connections."""
        writers: list[asyncio.StreamWriter] = []

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(1 << 16):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            parts = urlsplit(url)
            there, back = await asyncio.open_connection(parts.hostname, parts.port)
            writers.extend((writer, back))
            await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

        def cut() -> None:
            for writer in writers:
                writer.transport.abort()

        server = await asyncio.start_server(connected, "127.0.0.1")
        async with server:
            port = server.sockets[0].getsockname()[1]
            try:
                yield f"ws://127.0.0.1:{port}", cut
            finally:
                cut()

    def entry(self, name: str = "box") -> str:
        """Return its entry for ``environments.toml``."""
        return (
            f'[[environments]]\nid = "{name}"\nprogram = "{self.binary}"\nargs = ["exec-server", "--listen", "stdio"]\n'
            f'env = {{ HOME = "{self.home}", CODEX_HOME = "{self.home}", OF_THE_BOX = "yes" }}\n'
        )


@pytest.fixture
def box(codex_binary: str, tmp_path: Path) -> Machine:
    return Machine(codex_binary, tmp_path)


@pytest.fixture
def configure(codex_home: Path) -> Any:
    """Write ``environments.toml``."""

    def write(text: str) -> None:
        (codex_home / "environments.toml").write_text(text, encoding="utf-8")

    return write


def alive(pid: int) -> bool:
    """Return whether a process exists that is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
