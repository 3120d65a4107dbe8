"""A model client around another one, which keeps the optional abilities of that one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any

from codex_framework.contract.roles.models import ModelClient, ModelEvent, ModelRequest

__all__ = ["CLIENT_ABILITIES", "ClientWrapper"]

CLIENT_ABILITIES = ("compacts", "prepare", "close_timeout_s")
"""The optional attributes of a :class:`~codex_framework.ModelClient`."""


class ClientWrapper:
    """A client around another one, to be returned by :meth:`Interceptor.client <codex_framework.Interceptor.client>`.

    Derive from it and override what you change. It has the same optional abilities (see :class:`~codex_framework.ModelClient`)
    as the other client. To give one up, set its attribute to None, or ``compacts`` to False.

    To change requests, override :meth:`changed` and not :meth:`stream`: requests that a server prepares for do not pass through
    :meth:`stream`. To see or change events, override :meth:`stream`, and get them from :meth:`response`.

    Args:
        client: The other client.

    Attributes:
        client: The other client.
    """

    def __init__(self, client: ModelClient) -> None:
        self.client = client

    def changed(self, request: ModelRequest) -> ModelRequest:
        """Return the request to send instead of another.

        Called for every request, including requests that a server only prepares for.
        """
        return request

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response from the other client."""
        return self.client.stream(self.changed(request))

    def response(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Request one response from the other client, for a :meth:`stream` of your own.

        The request is :meth:`changed`, and the end of the block closes the response: ``async with self.response(request) as
        events``.
        """
        stream: Any = self.client.stream(self.changed(request))
        return aclosing(stream)

    async def aclose(self) -> None:
        """Close the other client."""
        await self.client.aclose()

    async def _prepare(self, request: ModelRequest, whole: Callable[[], Awaitable[ModelRequest | None]]) -> None:
        async def change_draft() -> ModelRequest | None:
            draft = await whole()
            return None if draft is None else self.changed(draft)

        prepare: Any = self.client.prepare  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        await prepare(self.changed(request), change_draft)

    if not TYPE_CHECKING:  # where every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Return an ability of the other client."""
            if name not in CLIENT_ABILITIES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            ability = getattr(self.client, name)
            return self._prepare if name == "prepare" and ability is not None else ability
