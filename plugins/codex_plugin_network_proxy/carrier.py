"""The parts of a gate that its HTTP side and its SOCKS side share."""

from __future__ import annotations

import asyncio

from codex_framework import NetworkTarget
from codex_framework.contract.roles.networks import BlockedRequest
from codex_plugin_network_proxy.deciding import Decider
from codex_plugin_network_proxy.limits import Limits
from codex_plugin_network_proxy.routing import Router

__all__ = ["Carrier"]

_MAX_BLOCKED = 100


class Carrier:
    """The shared parts of a gate.

    Attributes:
        limits: Time and size limits.
        router: Opens connections.
        blocked: The refused requests, at most 100.
    """

    def __init__(self, decider: Decider, router: Router, limits: Limits) -> None:
        self.limits = limits
        self.router = router
        self.blocked: list[BlockedRequest] = []
        self._decider = decider

    @property
    def limited(self) -> bool:
        """Whether only reading requests over plain HTTP are allowed (``mode = "limited"``)."""
        return self._decider.limited

    async def admit(self, target: NetworkTarget, gone: asyncio.Future[None], *, is_socket: bool = False) -> None:
        """Return if the rules for host names and methods let a target be reached. The router checks unix sockets.

        Raises:
            RefusedError: The target may not be reached.
            ConnectionError: The client disconnected while the user was being asked.
        """
        if is_socket:
            self._decider.check_method(target)
        else:
            await self._decider.admit(target, gone)

    def record(self, target: NetworkTarget, reason: str) -> None:
        """Record a refused request."""
        if len(self.blocked) < _MAX_BLOCKED:
            self.blocked.append(BlockedRequest(target, reason))
