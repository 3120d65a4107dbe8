"""Rows of the table of methods. Each module of ``methods`` makes the rows of its topic, and ``methods.METHODS`` has all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from codex_framework import Value

__all__ = ["Handler", "Json", "Method", "MethodTable", "Stability"]

Json: TypeAlias = Mapping[str, Any]
"""A JSON object."""

Stability = Literal["stable", "experimental", "v1"]
"""``experimental`` needs the capability ``experimentalApi``; ``v1`` is an older form that clients still send."""

Handler: TypeAlias = Callable[[Any], Awaitable[Json]]
"""Fulfils a request (``server.Call``). The parameters have been checked. Raises RpcError or CodexError, which the client gets."""


class Method(Value, kw_only=True):
    """A method that clients can call.

    Attributes:
        params: The type of its parameters. None without parameters.
        result: The type of its result.
        concurrent: Whether a call runs beside later calls of the same client about the same thread, because it may take long.
            Other calls run one after another.
    """

    name: str
    params: str | None
    result: str
    handler: Handler
    stability: Stability = "stable"
    concurrent: bool = False


class MethodTable(dict[str, Method]):
    """Methods by name."""

    def method(
        self,
        name: str,
        params: str | None,
        result: str,
        *,
        stability: Stability = "stable",
        concurrent: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Add the decorated function as the handler of a method."""

        def add(handler: Handler) -> Handler:
            self[name] = Method(
                name=name, params=params, result=result, handler=handler, stability=stability, concurrent=concurrent
            )
            return handler

        return add
