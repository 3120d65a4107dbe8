"""The common base of run-time contexts: services, state, background work and measurements."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from codex_framework.contract.value import Value

__all__ = ["Scope", "ServiceKey", "Span", "Trace"]

T = TypeVar("T")


class ServiceKey(Generic[T]):
    """The key of a service. ``T`` may be a protocol. Two plugins that share a key need not import each other.

    Keys are equal if their names are.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServiceKey) and other.name == self.name

    def __hash__(self) -> int:
        return hash((ServiceKey, self.name))

    def __repr__(self) -> str:
        return f"ServiceKey({self.name!r})"


class Trace(Value):
    """A W3C trace context: the parent of a span, across processes."""

    traceparent: str
    tracestate: str = ""


class Span(Protocol):
    """A measured piece of work in progress."""

    @property
    def trace(self) -> Trace | None:
        """The trace context. None if nothing is measured."""
        ...

    def set(self, **attributes: str | float | bool) -> None:
        """Add attributes. Never put prompt text or tool output into them."""
        ...

    def mark(self, name: str) -> None:
        """Note a moment within the span."""
        ...


class Scope(Protocol):
    """The methods of every run-time context."""

    def service(self, key: ServiceKey[T]) -> T:
        """Return a service of this thread, or else of the kernel. Look it up at each use, because it may be replaced.

        Raises:
            ServiceError: No component provides it. The fact names the plugins that could.
        """
        ...

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object under ``key``, made by ``factory`` at first use.

        If the object has an ``async def aclose(self)``, the kernel awaits it when this scope ends. Turns, tasks and calls share the
        scope of their thread.
        """
        ...

    def background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine in the background. It is cancelled before this scope ends, and has 5 s to clean up.

        An exception becomes a warning that names the plugin, and has no other effect.
        """
        ...

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block as a child of the current span. Costs nothing without telemetry."""
        ...
