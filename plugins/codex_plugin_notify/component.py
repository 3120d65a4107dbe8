"""The component: passes on failures, and knows which paths commands of a thread may write."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import cast
from weakref import WeakValueDictionary

from codex_framework import Component, KernelContext, ThreadComponent, ThreadContext, TurnFacts
from codex_framework.contract.errors import PluginError
from codex_framework.contract.permissions.file_access import FileAccess

__all__ = ["NotifyComponent", "Reports"]


_PATIENCE_S = 1.0
"""How long the end of a notifier waits until its warnings are passed on, in seconds."""


class Reports:
    """The reports about failures of one notifier: each sentence once, as a warning of the thread that it concerns."""

    def __init__(self, component: NotifyComponent) -> None:
        self._component = component
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._on_the_way: list[Future[None]] = []
        self._kept: list[str] = []
        self._ended = False

    def tell(self, thread_id: str, text: str) -> None:
        """Tell the user, unless it was told before or the kernel has ended. May be called on any thread."""
        with self._lock:
            if self._ended or text in self._told:
                return
            self._told.add(text)
            warning = self._component.warn(thread_id, text)
            if warning is None:
                self._kept.append(text)
                return
            self._on_the_way = [each for each in self._on_the_way if not each.done()]
            self._on_the_way.append(warning)

    def again(self, text: str) -> None:
        """Allow a sentence to be reported again, because the problem is over."""
        with self._lock:
            self._told.discard(text)

    def finish(self) -> None:
        """Wait until the warnings are passed on. Not for the event loop's thread.

        Raises:
            PluginError: A warning could not be passed on.
        """
        with self._lock:
            self._ended = True
            on_the_way, self._on_the_way = self._on_the_way, []
            kept, self._kept = self._kept, []
        wait(on_the_way, _PATIENCE_S)
        if kept:
            fact = ". ".join(text.rstrip(".") for text in kept)
            raise PluginError("notify", fact, hint="Turns are not affected.")


class NotifyComponent(Component):
    """Passes on the failures of the plugin's notifiers."""

    name = "notify"

    def __init__(self) -> None:
        self._kernel: KernelContext | None = None
        self._threads: WeakValueDictionary[str, _Watched] = WeakValueDictionary()

    async def start(self, kernel: KernelContext) -> None:
        """Take the kernel, which can be told something even after all components have ended."""
        self._kernel = kernel

    def for_thread(self, thread: ThreadContext) -> ThreadComponent:
        """Return the part that knows the thread."""
        watched = self._threads[thread.id] = _Watched(thread)
        return watched

    def warn(self, thread_id: str, text: str) -> Future[None] | None:
        """Warn the user, soon. None if there is no kernel, or its event loop has ended. May be called on any thread."""
        kernel = self._kernel
        if kernel is None:
            return None

        async def warn() -> None:
            watched = self._threads.get(thread_id)
            (kernel if watched is None or watched.closed else watched.thread).warn(f"notify: {text.rstrip('.')}.")

        try:
            return cast("Future[None]", kernel.call_from_thread(warn))
        except RuntimeError:
            return None

    def access(self, thread_id: str) -> FileAccess | None:
        """Return what commands of a thread may do with files, or None if it is unknown."""
        watched = self._threads.get(thread_id)
        return None if watched is None else watched.access


class _Watched(ThreadComponent):
    """A thread, for warnings and its permissions."""

    def __init__(self, thread: ThreadContext) -> None:
        self.thread = thread
        self.closed = False
        self.access: FileAccess | None = None

    def tools(self, turn: TurnFacts) -> tuple[()]:
        """Note the permissions of the turn that starts."""
        self.access = turn.access
        return ()

    async def aclose(self) -> None:
        """Leave further warnings to the kernel."""
        self.closed = True
