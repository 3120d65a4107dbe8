"""A running container, created once and used by any number of commands. It ends with this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile

from codex_contrib_docker.arguments import Container, run_words
from codex_contrib_docker.engine import Engine, refusal
from codex_framework import SandboxError
from codex_framework.toolkit.placeholders import Placeholders

__all__ = ["RunningContainer"]

_ENDING_S = 10.0
_READY = b"ready\n"


class RunningContainer:
    """One container. Its first process is ``cat``, whose echo shows that the container is running.

    Args:
        engine: The engine that creates it.
        container: Its properties.
    """

    def __init__(self, engine: Engine, container: Container) -> None:
        self.container = container
        self._engine = engine
        self._process: asyncio.subprocess.Process | None = None
        self._placeholders: Placeholders | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the container
        self._closed = False

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def alive(self) -> bool:
        """Whether it is running, as far as is known."""
        return self._process is not None and self._process.returncode is None and not self._closed

    async def start(self) -> None:
        """Create it, and wait until it is running.

        Raises:
            SandboxError: It cannot be created.
        """
        self._placeholders = Placeholders(self.container.layout.placeholders)
        try:
            await self._started()
        except BaseException:
            await self.aclose()
            raise

    async def _started(self) -> None:
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                self._engine.program,
                *run_words(self.container),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,
            )
        except OSError as error:
            raise refusal("the engine cannot be run", error.strerror or "") from error
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._engine.timeout_s):
                with contextlib.suppress(ConnectionError):  # it has already ended
                    process.stdin.write(_READY)
                    await process.stdin.drain()
                answer = await process.stdout.readline()
                if answer != _READY:
                    await process.wait()
        except TimeoutError:
            raise SandboxError(
                f"the engine did not start a container within {self._engine.timeout_s:g} s",
                hint="check whether the engine works (`docker run --rm IMAGE true`), or raise `[framework.plugins.docker] timeout_s`",
            ) from None
        if answer != _READY:
            raise refusal("the engine cannot start a container", self.last_words())

    def last_words(self) -> str:
        """Return the engine's messages about this container."""
        with contextlib.suppress(ValueError):
            size = os.fstat(self._said.fileno()).st_size
            return os.pread(self._said.fileno(), size, 0).decode("utf-8", "replace").strip()
        return ""

    async def aclose(self) -> None:
        """End it, with all its commands. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            patience = _ENDING_S
            if not await _ends(process, 0.2):  # commands in it do not delay the end, but an engine may
                status, _ = await self._engine.call("rm", "--force", self.name)
                patience = _ENDING_S if status == 0 else 0.2
            if not await _ends(process, patience):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            with contextlib.suppress(ConnectionError):
                await process.stdin.wait_closed()
        if self._placeholders is not None:
            self._placeholders.release()
        self._said.close()


async def _ends(process: asyncio.subprocess.Process, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        return False
    return True
