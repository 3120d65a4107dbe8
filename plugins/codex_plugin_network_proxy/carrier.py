"""State shared by the HTTP side and the SOCKS side of a gate."""

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
    """The state that both sides of a gate share.

    Attributes:
        limits: Time and size limits.
        router: Opens connections.
        blocked: Refused requests, at most the first 100.
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
        """Check a target against the rules for hosts and methods, and return if it may be reached.

        For a unix socket, only the method is checked here. The router checks the path.

        Raises:
            RefusedError: The rules do not allow the target.
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
