"""The implementation of ``KernelContext``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar, get_args

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.ops import KernelOp, Op
from codex_framework.contract.protocol.wire import WireError, read
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.models import OpenModel
from codex_framework.contract.roles.scopes import Span
from codex_framework.contract.roles.threads import ThreadClient
from codex_framework.loader.registry import Registry
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.plugin_view import Background, PluginState, PluginView, Services
from codex_framework.threads.spans import span_of

__all__ = ["PluginKernel", "op_of"]

T = TypeVar("T")


class PluginKernel(PluginView):
    """The kernel for one plugin. The contract describes the members."""

    def __init__(
        self,
        plugin: str,
        *,
        registry: Callable[[], Registry],
        warn: Callable[[str, str], None],
        agent: Callable[[str], Agent[Any]],
        resume: Callable[[str], Awaitable[ThreadClient]],
        open_model: Callable[[str, str | None], OpenModel],
        services: Services,
        state: PluginState,
        background: Background,
        broadcast: Broadcast,
    ) -> None:
        super().__init__(plugin)
        self._registry = registry
        self._warn = warn
        self._agent = agent
        self._resume = resume
        self._open_model = open_model
        self._services = services
        self._state = state
        self._background = background
        self._broadcast = broadcast
        self._loop = asyncio.get_running_loop()

    def warn(self, text: str, slug: str = "warning") -> None:
        """Send a warning to the clients of all threads."""
        self._warn(text, slug)

    def op(self, tag: str, **fields: Any) -> Op:
        """Return an op by its tag."""
        return op_of(self._registry(), tag, fields)

    def agent(self, name: str) -> Agent[Any]:
        """Return an agent by name."""
        return self._agent(name)

    async def resume_thread(self, thread_id: str) -> ThreadClient:
        """Resume a stored thread."""
        return await self._resume(thread_id)

    def open_model(self, model: str, provider: str | None = None) -> OpenModel:
        """Return a model of any provider with its client."""
        return self._open_model(model, provider)

    def call_from_thread(self, function: Callable[[], Awaitable[T]]) -> Any:
        """Run a coroutine function on the kernel's event loop, from another operating-system thread."""

        async def call() -> T:
            return await function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop)

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block."""
        return span_of(self._broadcast, name, attributes=attributes)


def op_of(registry: Registry, tag: str, fields: Mapping[str, Any]) -> Op:
    """Return an op of the kernel or of a plugin from plain values or protocol values.

    Raises:
        ThreadError: Nobody handles it, or the fields do not fit.
    """
    kinds: dict[str, type[Op]] = {name: offer.item.op for name, offer in registry.ops.items()}
    kinds |= {kind.type: kind for kind in get_args(KernelOp)}
    if tag not in kinds:
        known = ", ".join(sorted(kinds))
        raise ThreadError(f"no plugin handles the op {tag!r}", slug="unknown-op", hint=f"The ops are: {known}.")
    try:
        made = kinds[tag](**fields)
    except TypeError as error:
        raise ThreadError(f"the op {tag!r} cannot be made: {error}", slug="bad-request") from None
    try:
        from codex_framework.contract.protocol.wire import to_wire

        whole: Op = read(kinds[tag], to_wire(made))  # plain values become protocol values
    except (WireError, TypeError) as error:
        raise ThreadError(f"the op {tag!r} cannot be made: {error}", slug="bad-request") from None
    return whole
