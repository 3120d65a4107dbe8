"""The methods of interceptors, collected once per registry. A method that no interceptor overrides is an empty tuple."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.value import Value
from codex_framework.toolkit.roles import overrides

__all__ = ["Guard", "InterceptorTable"]

_BEFORE = ("input", "request", "view_message", "before_tool", "before_compact", "stop", "client")
_AFTER = ("after_item", "after_tool", "redact", "after_compact")
"""Called in reverse, so that the first interceptor is the outermost."""


class Guard(Value):
    """One method of one interceptor."""

    name: str
    plugin: str
    call: Callable[..., Any]


class InterceptorTable:
    """The methods of the interceptors of a turn, each in calling order.

    Attributes:
        input, request, view_message, before_tool, before_compact, stop, client: Smallest ``order`` first.
        after_item, after_tool, redact, after_compact: Smallest ``order`` last.
        takes: For each entry of ``input``, the predicate that says whether it takes an input, or None if it takes all.
        alone: Predicates that make a parallel-safe call run alone.
    """

    input: tuple[Guard, ...]
    request: tuple[Guard, ...]
    view_message: tuple[Guard, ...]
    before_tool: tuple[Guard, ...]
    before_compact: tuple[Guard, ...]
    stop: tuple[Guard, ...]
    client: tuple[Guard, ...]
    after_item: tuple[Guard, ...]
    after_tool: tuple[Guard, ...]
    redact: tuple[Guard, ...]
    after_compact: tuple[Guard, ...]
    takes: tuple[Guard | None, ...]
    alone: tuple[Guard, ...]

    def __init__(self, interceptors: Iterable[Any] = (), owners: Mapping[str, str] | None = None) -> None:
        self._items = tuple(interceptors)
        self._owners = owners or {}
        self._choosy = tuple(
            (item, self._guard(item, "applies")) for item in self._items if overrides(item, Interceptor, "applies")
        )
        self._without: dict[tuple[str, ...], InterceptorTable] = {}
        for method in (*_BEFORE, *_AFTER):
            guards = [self._guard(item, method) for item in self._items if overrides(item, Interceptor, method)]
            if method == "redact":
                guards = [guard for guard, item in zip(guards, self._with("redact"), strict=True) if item.redacts]
            setattr(self, method, tuple(reversed(guards) if method in _AFTER else guards))
        self.takes = tuple(
            self._guard(item, "takes") if overrides(item, Interceptor, "takes") else None
            for item in self._with("input")
        )
        self.alone = tuple(self._guard(item, "alone") for item in self._with("alone"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterceptorTable) and (self._items, self._owners) == (other._items, other._owners)

    __hash__ = None  # type: ignore[assignment]

    def for_turn(self, applies: Callable[[Guard], bool]) -> InterceptorTable:
        """Return the table of the interceptors that apply to a turn. Each set of them has one table, made at its first use.

        Args:
            applies: Calls the method ``applies`` of an interceptor. Its exceptions are passed on.
        """
        absent = tuple(item.name for item, guard in self._choosy if not applies(guard))
        if not absent:
            return self
        table = self._without.get(absent)
        if table is None:
            items = [item for item in self._items if item.name not in absent]
            table = self._without[absent] = InterceptorTable(items, self._owners)
        return table

    @property
    def items(self) -> tuple[Any, ...]:
        """The interceptors by ``order``."""
        return self._items

    def without(self, plugins: Collection[str]) -> InterceptorTable:
        """Return the table without the interceptors of some plugins."""
        left = [item for item in self._items if self._owners.get(item.name) not in plugins]
        return InterceptorTable(left, self._owners)

    def _with(self, method: str) -> list[Any]:
        return [item for item in self._items if overrides(item, Interceptor, method)]

    def _guard(self, item: Any, method: str) -> Guard:
        call = getattr(item, method)
        if method in ("request", "before_tool", "after_tool") and not _takes_turn(call, method):
            call = _without_turn(call)
        return Guard(item.name, self._owners.get(item.name, ""), call)


def _takes_turn(call: Callable[..., Any], method: str) -> bool:
    """Return whether a method has the parameter ``turn``, which did not exist up to version 0.1."""
    try:
        inspect.signature(call).bind(*range(3 if method == "after_tool" else 2))
    except TypeError:
        return False
    except ValueError:  # no signature to check (a builtin)
        return True
    return True


def _without_turn(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def shorter(*arguments: Any) -> Any:
        return call(*arguments[:-1])

    return shorter
