"""The role of an op handler."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.roles.threads import ThreadContext

__all__ = ["FunctionHandler", "OpHandler", "handles"]

OpT = TypeVar("OpT", bound=Op)


class OpHandler(Generic[OpT]):
    """Handles one kind of op. Built-in ops cannot be replaced.

    Attributes:
        op: The class of the op; its ``type`` is the tag on the wire.
    """

    op: type[OpT]

    @abstractmethod
    async def handle(self, op: OpT, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Execute the op, or start a task for it.

        Ops of a thread are handled in order of submission, one at a time, within 10 s each. A CodexError becomes an error event
        with
        the submission's id.

        Args:
            id: The submission's id. Pass it to ``start_task``, so that the turn has the same id.
        """
        raise NotImplementedError


class FunctionHandler(OpHandler[OpT]):
    """The handler that :func:`handles` creates from a function."""

    def __init__(self, function: Callable[[OpT, ThreadContext, str], Awaitable[None]], op: type[OpT]) -> None:
        self.op = op
        self.__wrapped__ = function  # the place of the handler in messages

    async def handle(self, op: OpT, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Call the function."""
        await self.__wrapped__(op, thread, id)


def handles(function: Callable[[OpT, ThreadContext, str], Awaitable[None]]) -> OpHandler[OpT]:
    """Create an op handler from an async function. The annotation of the first parameter is the class of the op.

        @handles
        async def compact(op: Compact, thread: ThreadContext, id: str) -> None: ...

    Raises:
        TypeError: The first parameter is not annotated with a subclass of ``Op``.
    """
    import inspect
    import typing

    first = next(iter(inspect.signature(function).parameters), "")
    try:
        kind = typing.get_type_hints(function).get(first)
    except NameError:  # Another annotation may be imported for type checkers only. The annotation of the op must exist.
        kind = getattr(function, "__globals__", {}).get(getattr(function, "__annotations__", {}).get(first))
    if not (isinstance(kind, type) and issubclass(kind, Op)):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name}: annotate its first parameter with the class of the op (a subclass of Op)")
    return FunctionHandler(function, typing.cast("type[OpT]", kind))
