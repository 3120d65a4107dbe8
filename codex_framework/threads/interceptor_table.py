"""The methods of interceptors, collected once per kernel. A method that no interceptor overrides is an empty tuple."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.plugins import Offer
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

    def __init__(self, offers: Iterable[Offer[Interceptor]] = ()) -> None:
        self._offers = tuple(offers)
        self._choosy = [_guard(offer, "applies") for offer in self._find_overriding("applies")]
        self._without: dict[tuple[str, ...], InterceptorTable] = {}
        for method in (*_BEFORE, *_AFTER):
            offers = [offer for offer in self._find_overriding(method) if method != "redact" or offer.item.redacts]
            guards = tuple(_guard(offer, method) for offer in offers)
            setattr(self, method, guards[::-1] if method in _AFTER else guards)
        self.takes = tuple(
            _guard(offer, "takes") if overrides(offer.item, Interceptor, "takes") else None
            for offer in self._find_overriding("input")
        )
        self.alone = tuple(_guard(offer, "alone") for offer in self._find_overriding("alone"))

    def for_turn(self, applies: Callable[[Guard], bool]) -> InterceptorTable:
        """Return the table of the interceptors that apply to a turn. Each set of them has one table, made at its first use.

        Args:
            applies: Calls the method ``applies`` of an interceptor. Its exceptions are passed on.
        """
        absent = tuple(guard.name for guard in self._choosy if not applies(guard))
        if not absent:
            return self
        table = self._without.get(absent)
        if table is None:
            present = [offer for offer in self._offers if offer.item.name not in absent]
            table = self._without[absent] = InterceptorTable(present)
        return table

    def _find_overriding(self, method: str) -> list[Offer[Interceptor]]:
        return [offer for offer in self._offers if overrides(offer.item, Interceptor, method)]


def _guard(offer: Offer[Interceptor], method: str) -> Guard:
    call = getattr(offer.item, method)
    if method in ("request", "before_tool", "after_tool") and not _takes_turn(call, method):
        call = _without_turn(call)
    return Guard(offer.item.name, offer.plugin, call)


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
