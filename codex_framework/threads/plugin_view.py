"""Parts of a kernel, a thread or a turn that every plugin gets: services, its own objects, and background work."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from operator import attrgetter
from typing import Any, TypeVar

from codex_framework.contract.errors import ServiceError
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.threads.faults import Label, advice, error_message, refuse
from codex_framework.threads.plugin_calls import call_isolated, close, collect_causes

__all__ = ["Background", "PluginState", "PluginView", "Services", "view_of"]

T = TypeVar("T")

PATIENCE_S = 5.0
"""How long a cancelled coroutine may clean up before it is abandoned, in seconds."""


_WORK = Label("background work", "", "")


class Background:
    """The running coroutines of one scope.

    Args:
        warn: Called with a sentence if a coroutine fails.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._tasks: dict[asyncio.Task[None], Label] = {}
        self._closed = False

    def __bool__(self) -> bool:
        """Whether anything is running."""
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], label: Label) -> None:
        """Run a coroutine. After the end of the scope it is not started."""
        if not inspect.iscoroutine(work):
            refuse("a coroutine: call the async function", work, "background")
        if self._closed:
            work.close()
            return
        context = copy_context()
        context.run(collect_causes)  # what it names as a cause must not be taken for one of the call that starts it
        task = asyncio.get_running_loop().create_task(call_isolated(lambda: work), context=context)
        self._tasks[task] = label
        task.add_done_callback(lambda _: work.close())  # cancelled before its first step, it has never been awaited
        task.add_done_callback(self._handle_end)

    async def aclose(self) -> None:
        """Cancel all coroutines and wait for their end, within the time limit."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, pending = await asyncio.wait(tasks, timeout=PATIENCE_S)
        for task in pending:
            label = self._tasks.get(task, _WORK)
            self._warn(f"{label} did not stop within {PATIENCE_S:g} s and was abandoned. {label.advice()}")

    def _handle_end(self, task: asyncio.Task[None]) -> None:
        label = self._tasks.pop(task, _WORK)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._warn(f"{label} failed: {error_message(error)}. {advice(label.plugin, error)}")


class PluginState:
    """Plugins' own objects for one thread, by key."""

    def __init__(self) -> None:
        self._objects: dict[object, tuple[str, Any]] = {}

    def get(self, key: object, factory: Callable[[], T], plugin: str) -> T:
        """Return the object under ``key``, created at first use.

        Args:
            plugin: The plugin that requests it, for messages.
        """
        if key not in self._objects:
            if not callable(factory):
                refuse("a function that makes the object", factory, "state")
            self._objects[key] = plugin, factory()
        found: T = self._objects[key][1]
        return found

    async def aclose(self) -> list[tuple[str, str]]:
        """Close the objects that can be closed. Return the errors: the plugin's name and what went wrong."""
        problems = []
        for key, (plugin, kept) in list(self._objects.items()):
            if getattr(kept, "aclose", None) is None:
                continue
            if (fact := await close(Label("state", _key_name(key), plugin), kept)) is not None:
                problems.append((plugin, fact))
        self._objects.clear()
        return problems


def _key_name(key: object) -> str:
    return key if isinstance(key, str) else str(getattr(key, "__name__", None) or repr(key))


class Services:
    """A table of services, with an optional surrounding table.

    Args:
        own: Services of this table.
        around: The surrounding table, searched next.
    """

    def __init__(self, own: Mapping[ServiceKey[Any], object] | None = None, around: Services | None = None) -> None:
        self._own = dict(own or {})
        self._around = around
        self._absent: dict[ServiceKey[Any], str] = {}

    def provide(self, key: ServiceKey[Any], service: object) -> None:
        """Add or replace a service."""
        self._own[key] = service

    def withdraw(self, key: ServiceKey[Any], reason: str) -> None:
        """Remove a service. ``reason`` appears in the error of later lookups."""
        self._own.pop(key, None)
        self._absent[key] = reason

    def get(self, key: ServiceKey[T]) -> T:
        """Return a service.

        Raises:
            ServiceError: No component provides it.
            WrongValue: The key is no ``ServiceKey``.
        """
        if not isinstance(key, ServiceKey):
            refuse("a ServiceKey", key, "service")
        if key in self._own:
            found: T = self._own[key]  # type: ignore[assignment]  # the key says of which type
            return found
        if self._around is not None and key not in self._absent:
            return self._around.get(key)
        reason = self._absent.get(key)
        raise ServiceError(
            f"no component provides the service {key.name!r}" + (f": {reason}" if reason else ""),
            hint="Install or enable a plugin that provides it; `codex-framework plugins` shows what is loaded.",
        )


def view_of(path: str) -> Any:
    """Return a property of a view that reads an attribute of the underlying object. The contract documents it.

    Args:
        path: The dotted path from the view, such as ``_conversation.journal.path``.
    """
    return property(attrgetter(path))


class PluginView:
    """A view for one plugin. The contract describes the members."""

    _services: Services
    _state: PluginState
    _background: Background

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin

    def service(self, key: ServiceKey[T]) -> T:
        """Return a service."""
        return self._services.get(key)

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object."""
        return self._state.get(key, factory, self._plugin)

    def background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine in the background."""
        self._background.start(work, Label("background work", name, self._plugin))
