"""The network gate of a command: how it is made, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.links import links_on_the_way
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.roles.networks import NetworkGate, NetworkProxy, NetworkTarget
from codex_framework.toolkit.faults import fact_of

__all__ = ["CLOSE_S", "end_gate", "make_gate"]

CLOSE_S = 5.0
"""Time limit for the end of a gate, in seconds. The command's result waits for it."""


def make_gate(
    access: FileAccess,
    proxy: NetworkProxy | None,
    ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None,
) -> NetworkGate | None:
    """Return a network gate for a command, or None if the command may reach all hosts or none.

    Args:
        access: The access of the command.
        proxy: The network proxy, or None if no plugin offers one.
        ask: Called for hosts that no rule matches. None refuses these hosts.

    Raises:
        SandboxError: No plugin offers a proxy, or the rules contradict each other.
    """
    if access.network is not NetworkMode.PROXY:
        return None
    if proxy is None:
        raise SandboxError(
            "only some hosts may be reached, but no network proxy is loaded",
            slug="no-network-proxy",
            hint="Enable the plugin `network_proxy`, or set `enabled = false` for the profile's network.",
        )
    rules = access.network_rules or NetworkRules()
    _check_sockets(rules, access)
    return proxy.gate(rules, ask)


def _check_sockets(rules: NetworkRules, access: FileAccess) -> None:
    """Check that no command can redirect an allowed socket path, for example to the socket of Docker.

    Raises:
        SandboxError: A command can.
    """
    if access.full:
        return
    for path, word in rules.unix_sockets.items():
        links = links_on_the_way(path) if word == "allow" and path.startswith("/") else []
        for link in links:
            if access.may_write(Path(link).parent):
                raise SandboxError(
                    f"unix_sockets allows {path}, and the symlink {link} on the way is where commands can write",
                    hint="Allow the path of the socket itself, or move the link.",
                )


async def end_gate(gate: NetworkGate, emit: Callable[[Any], None]) -> bool:
    """Close a gate, and return whether it blocked a request.

    A gate that fails or hangs is reported, and the command's result is kept. If it does not report whether it blocked a
    request, it counts as having blocked one, so that the user is not asked to run the command without the sandbox.
    """
    blocked = True
    try:
        blocked = bool(gate.blocked)
        async with asyncio.timeout(CLOSE_S):
            await gate.aclose()
    except TimeoutError:
        emit(
            WarningEvent(
                f"the network gate {type(gate).__qualname__} did not end within {CLOSE_S:g} s", slug="plugin-failed"
            )
        )
    except Exception as error:
        emit(
            WarningEvent(
                f"the network gate {type(gate).__qualname__} failed at its end: {fact_of(error)}", slug="plugin-failed"
            )
        )
    return blocked
