"""What all run-time contexts share: services, state, background work and measurements."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from codex_framework.contract.value import Value

__all__ = ["Scope", "ServiceKey", "Span", "Trace"]

T = TypeVar("T")


class ServiceKey(Generic[T]):
    """Names a service. ``T`` may be a protocol, and two plugins that share a key need not import each other.

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
    """A W3C trace context: what a span is a child of, across processes."""

    traceparent: str
    tracestate: str = ""


class Span(Protocol):
    """A measured piece of work that is running."""

    @property
    def trace(self) -> Trace | None:
        """Its trace context. None if nobody measures."""
        ...

    def set(self, **attributes: str | float | bool) -> None:
        """Add attributes. Never put prompt text or tool output into them."""
        ...


class Scope(Protocol):
    """What every run-time context can do."""

    def service(self, key: ServiceKey[T]) -> T:
        """Return a service of this thread, else of the kernel. Look it up at each use, because it may be swapped.

        Raises:
            ServiceError: Nobody provides it; the fact names the plugins that would.
        """
        ...

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """Return the plugin's own object under ``key``, made by ``factory`` at first use.

        If the object has an ``async def aclose(self)``, the kernel awaits it when this scope ends. The scope of a turn, a task and
        a call is their thread's.
        """
        ...

    def background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine beside everything else. It is cancelled before this scope ends, and has 5 s to clean up.

        What it raises becomes a warning that names the plugin; nothing else ends for it.
        """
        ...

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block as a child of the current span. Costs nothing if nobody measures."""
        ...
