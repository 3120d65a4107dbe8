"""Kernels: one for each folder in which threads work, because each folder has its own configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from codex_framework import Kernel
from codex_framework.config import Config, load_config

__all__ = ["Kernels"]


class Kernels:
    """The kernels of a server.

    Threads of one folder share a kernel while the configuration of the folder is the same. It has the project's own settings,
    hooks, rules and agents if the user trusts the project. The kernel ends with its last thread.

    Attributes:
        base: The kernel of the server's folder, which lasts as long as the server.
        assigned: Keys that clients have set for as long as the server runs, with their values. New threads read them.
    """

    def __init__(
        self,
        base: Kernel,
        load: Callable[[Path, Mapping[str, Any]], Config],
        create: Callable[[Config], Awaitable[Kernel]],
    ) -> None:
        self.base = base
        self.assigned: dict[str, Any] = {}
        self._load = load
        self._create = create
        self._kernels: dict[Hashable, Kernel] = {}
        self._starting: dict[Kernel, int] = {}  # threads that are being started
        self._closing: set[asyncio.Task[None]] = set()
        self._creating = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        cwd: Path,
        *,
        environ: Mapping[str, str],
        overrides: Sequence[str] = (),
        plugins: Sequence[object] = (),
    ) -> AsyncIterator[Kernels]:
        """Create the kernel of a folder, and close all kernels at the end of the block.

        Args:
            cwd: The server's folder.
            overrides: ``-c`` arguments of the form ``key=value``, for all folders.
            plugins: Further plugins, as for ``Kernel.create``.

        Raises:
            CodexError: The configuration is invalid, or the kernel cannot be created.
        """

        def load(folder: Path, flags: Mapping[str, Any]) -> Config:
            return load_config(cwd=folder, environ=environ, overrides=overrides, flags=flags)

        def create(config: Config) -> Awaitable[Kernel]:
            return Kernel.create(config, environ=environ, plugins=plugins)

        config = load(cwd, {})
        async with await create(config) as base:
            kernels = cls(base, load, create)
            kernels._kernels[_identity(config)] = base
            try:
                yield kernels
            finally:
                await kernels._aclose()

    @property
    def running(self) -> tuple[Kernel, ...]:
        """All kernels, the server's own first."""
        return tuple(self._kernels.values())

    def load_config(self, folder: Path | None, flags: Mapping[str, Any] | None = None) -> Config:
        """Read the configuration of a folder, by default the server's, without constraints. Raises ConfigError.

        Args:
            flags: Keys with values that override all others.
        """
        return self._load(folder or self.base.config.cwd, {**self.assigned, **(flags or {})})

    @asynccontextmanager
    async def at(self, folder: Path | None, flags: Mapping[str, Any] | None = None) -> AsyncIterator[Kernel]:
        """Provide the kernel for threads in a folder. It takes the arguments of :meth:`load_config`.

        Start the thread within the block.

        Raises:
            CodexError: The configuration of the folder is invalid, or the kernel cannot be created.
        """
        config = await asyncio.to_thread(self.load_config, folder, flags)
        key = _identity(config)
        async with self._creating:
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = await self._create(config)
            self._starting[kernel] = self._starting.get(kernel, 0) + 1
        try:
            yield kernel
        finally:
            self._starting[kernel] -= 1
            self.close_idle()

    def close_idle(self) -> None:
        """Close the kernels that have no thread any longer."""
        for key, kernel in list(self._kernels.items()):
            if kernel is self.base or kernel.threads or self._starting.get(kernel):
                continue
            del self._kernels[key]
            self._starting.pop(kernel, None)
            task = asyncio.ensure_future(kernel.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def reload_user_config(self) -> Sequence[str]:
        """Read the user's file again for all kernels. See ``Kernel.reload_user_config``.

        Returns:
            Sentences about changes that wait for a new thread.

        Raises:
            ConfigError: The file cannot be used.
        """
        sentences = [sentence for kernel in self.running for sentence in await kernel.reload_user_config()]
        return list(dict.fromkeys(sentences))

    async def _aclose(self) -> None:
        for kernel in self.running:
            await kernel.aclose()
        await asyncio.gather(*self._closing)


def _identity(config: Config) -> Hashable:
    """Return the identity of a configuration: the folder, the trust in it, the files, and settings without a file."""
    sources = ((layer.name, layer.path, layer.text or repr(layer.table)) for layer in config.layers)
    return config.cwd, config.trust, tuple(sources)
