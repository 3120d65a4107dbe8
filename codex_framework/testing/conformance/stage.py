"""Real kernels for checks: a plugin in a thread, alone and beside another kernel, and a search for leftover resources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from codex_framework.contract.errors import described
from codex_framework.loader.registry import Registry
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.testing.kernels import KernelFactory
from codex_framework.testing.leftovers import Leftovers
from codex_framework.testing.offering import Offer
from codex_framework.testing.replies import say
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["HELLO", "SOON_S", "WITHIN_S", "Stage", "interrupted"]

WITHIN_S = 20.0
"""How long one scene may take, in seconds."""

SOON_S = 0.05
"""How long a plain call may take, and how long a turn runs before it is interrupted, in seconds."""

HELLO = say("Hello.")

_PLUGIN = "checked"

Act = Callable[[ScriptedThread], Awaitable[object]]


class Stage:
    """Creates kernels with the checked plugin.

    Args:
        offers: Creates the objects of the plugin, as arguments of ``Offer``. Called once for each kernel.
        plugins: Further plugins. One of them, or an installed one, may offer the checked object too; the checked one is used.
        config: As for ``make_kernel``.
        installed: Whether installed plugins are loaded too.
    """

    def __init__(
        self,
        findings: Findings,
        offers: Callable[[], dict[str, Any]],
        *,
        plugins: Sequence[object] = (),
        config: str = "",
        installed: bool = False,
    ) -> None:
        self._findings = findings
        self._offers = offers
        self._plugins = plugins
        self._config = config
        self._installed = installed

    async def play(
        self,
        what: str,
        act: Act,
        *,
        replies: Sequence[ReplySource] = (),
        kernels: int = 1,
        failing: bool = False,
        **start: Any,
    ) -> None:
        """Run an action concurrently in a thread of each kernel, and record problems.

        Args:
            what: A description of the action, for messages.
            failing: Whether warnings that name the plugin are allowed.
            start: Arguments of ``start_thread``.
        """
        leftovers = Leftovers()
        threads: list[ScriptedThread] = []
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(WITHIN_S):
                    for _ in range(kernels):
                        threads.append(await self._thread(stack, leftovers, replies, start))  # noqa: PERF401  # closed if the next fails
                    await asyncio.gather(*(act(thread) for thread in threads))
            except TimeoutError:
                self._findings.note(f"{what}: it does not end within {WITHIN_S:g} s")
            except Unmet:  # already noted
                pass
            except Exception as error:  # the checked object may raise anything
                self._findings.note(f"{what}: {described(error)}")
            for thread in threads:
                for problem in await thread.close():
                    self._findings.note(f"{what}: {problem}")
        for thread in threads:
            own = [text for text in thread.warnings if f"{_PLUGIN!r}" in text]
            found = (*([] if failing else own), *thread.kernel.registry.warnings)
            ignored = _repeated_offers(thread.kernel.registry)
            for text in found:
                if not any(fact in text for fact in ignored):
                    self._findings.note(f"{what}: {text}")
        for thing in await leftovers.found():
            self._findings.note(f"{what}: {thing}")

    async def _thread(
        self, stack: AsyncExitStack, leftovers: Leftovers, replies: Sequence[ReplySource], start: dict[str, Any]
    ) -> ScriptedThread:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="check-")))
        for name in ("home", "work"):
            (folder / name).mkdir()
        plugins = [Offer(name=_PLUGIN, **self._offers()), *self._plugins]
        made = KernelFactory(folder / "home", folder / "work")(
            replies, plugins=plugins, config=self._config, entry_points=None if self._installed else ()
        )
        kernel = await stack.enter_async_context(made)
        client = await kernel.start_thread(**start)
        leftovers.marks.append(f"CODEX_THREAD_ID={client.id}")
        return ScriptedThread(kernel, client, (), _no_restart, attended=False)


def _repeated_offers(registry: Registry) -> list[str]:
    """Return the conflicts with the plugin of the checked object, which offers it as well."""
    return [
        problem.fact
        for plugin in registry.plugins
        if not plugin.source.bundled and plugin.name != _PLUGIN
        for problem in plugin.problems
        if problem.fact.endswith(f"; the one of {_PLUGIN!r} is used")
    ]


async def _no_restart(thread: ScriptedThread) -> ScriptedThread:
    raise RuntimeError(f"thread {thread.client.id} is not restarted in a check")


async def interrupted(thread: ScriptedThread) -> None:
    """Start a turn and interrupt it."""
    thread.start("Go!")
    await asyncio.sleep(SOON_S)
    await thread.client.interrupt()
