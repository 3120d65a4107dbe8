"""The connection of a sandbox's own network to the gate: listening sockets inside, which the gate serves from outside."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from codex_framework import NetworkGate, ProxyPorts, SandboxError

__all__ = ["PORTS", "join"]

PORTS = ProxyPorts(http=3128, socks=8081)
"""The ports in the sandbox (Codex's). Its network is new, so they are free."""

_JOINING_S = 10.0
_LISTENING = Path(__file__).with_name("listening.py")


async def join(gate: NetworkGate, pid: int) -> None:
    """Let the gate serve the network of a process that has not started its work yet.

    Raises:
        SandboxError: The network cannot be entered.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            helper = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_LISTENING), str(pid), str(theirs.fileno()), *map(str, PORTS)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
            )
        try:
            async with asyncio.timeout(_JOINING_S):
                _, said = await helper.communicate()
        except TimeoutError:
            helper.kill()
            await helper.wait()
            raise _refusal("it takes too long") from None
        if helper.returncode != 0:
            raise _refusal(said.decode("utf-8", "replace").strip().rpartition("\n")[2])
        _, descriptors, _, _ = socket.recv_fds(ours, 16, len(PORTS))
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    try:
        if len(sockets) != len(PORTS):
            raise _refusal("the sockets did not arrive")
        await gate.serve(sockets[0], sockets[1])  # it makes its own copies
    finally:
        for listener in sockets:
            listener.close()


def _refusal(reason: str) -> SandboxError:
    return SandboxError(
        f"the gate to the network cannot be opened in the sandbox: {reason}",
        hint="use the landlock sandbox (`[framework] sandbox`), or switch the network on or off entirely",
    )
