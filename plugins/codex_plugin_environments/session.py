"""One connection to an exec-server, with the processes that were started through it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codex_framework import CommandFailed, EnvironmentInfo, SandboxError
from codex_framework.contract.roles.sandboxes import Launch
from codex_plugin_environments.channels import Channel
from codex_plugin_environments.confining import path_of, uri_of
from codex_plugin_environments.peer import Peer, RemoteError
from codex_plugin_environments.processes import RemoteProcess

__all__ = ["CALL_S", "Session"]

CALL_S = 60.0
"""Time limit of a call in seconds. Files are read in parts, so no call takes long."""

_CLOSE_S = 1.0

_CLIENT = "codex-framework"


class Session:
    """A connection after its handshake.

    Args:
        channel: The way to the server.
        lost: Called with the reason and the ids of running processes when the connection is lost.
        shown: Returns a text of the server without secrets.

    Attributes:
        id: The id by which the server knows it, even after the connection is lost.
    """

    def __init__(
        self, channel: Channel, lost: Callable[[str, Sequence[str]], None], shown: Callable[[str], str] = str
    ) -> None:
        self.id = ""
        self._processes: dict[str, RemoteProcess] = {}
        self._tell_lost = lost
        self._peer = Peer(channel, self._notified, self._lost, shown)

    @property
    def ended(self) -> str | None:
        """Why the connection has ended. None if it has not."""
        return self._peer.ended

    async def begin(self, timeout_s: float, earlier: str = "", left: Sequence[str] = ()) -> EnvironmentInfo:
        """Introduce this client, and end processes of an earlier connection.

        Args:
            timeout_s: Time limit of each step in seconds.
            earlier: The id of the connection that was lost.
            left: The ids of processes that ran then. The server would not end them.

        Raises:
            ConnectionError: The server does not accept this client.
        """
        answer = await self._introduced({"clientName": _CLIENT}, earlier if left else "", timeout_s)
        await self._peer.notify("initialized")
        self.id = str(answer.get("sessionId", ""))
        if left and self.id == earlier:
            await self._terminate(left, timeout_s)
        return _info(answer.get("environmentInfo"))

    async def _introduced(self, client: Mapping[str, Any], earlier: str, timeout_s: float) -> Mapping[str, Any]:
        try:
            if earlier:
                with contextlib.suppress(RemoteError):  # it has forgotten that connection
                    return await self.call("initialize", {**client, "resumeSessionId": earlier}, timeout_s)
            return await self.call("initialize", client, timeout_s)
        except RemoteError as error:
            raise ConnectionError(f"the server refuses this client: {error}") from None

    async def _terminate(self, process_ids: Sequence[str], timeout_s: float) -> None:
        calls = [self.call("process/terminate", {"processId": process_id}, timeout_s) for process_id in process_ids]
        await asyncio.gather(*calls, return_exceptions=True)

    async def call(self, method: str, params: Mapping[str, Any], timeout_s: float = CALL_S) -> Mapping[str, Any]:
        """Call a method. Raises as :meth:`Peer.call`."""
        return await self._peer.call(method, params, timeout_s)

    async def start(
        self, launch: Launch, policy: Mapping[str, Any], sandbox: Mapping[str, Any] | None
    ) -> RemoteProcess:
        """Start a process.

        Raises:
            CommandFailed: The server cannot start it.
            SandboxError: It would not be confined.
            ConnectionError: The connection is lost. The server ends the process if it was started.
        """
        process_id = uuid.uuid4().hex
        process = self._processes[process_id] = RemoteProcess(self.call, process_id, launch)
        params = {
            "processId": process_id,
            "argv": launch.argv,
            "cwd": uri_of(launch.cwd),
            "env": launch.env,
            "envPolicy": policy,
            "tty": launch.tty,
            **({} if sandbox is None else {"sandbox": sandbox}),
        }
        try:
            answer = await self.call("process/start", params)
            if sandbox is not None and answer.get("sandboxType") in (None, "none"):
                raise SandboxError("the server does not confine the command", slug="environment")
        except BaseException as error:
            self._forget(process_id)
            process.lost("it was not started")
            if not isinstance(error, RemoteError):
                self._end_soon(process_id)
                raise
            raise CommandFailed(f"exec-server rejected request ({error.code}): {error}") from None
        process.begin()
        return process

    def _end_soon(self, process_id: str) -> None:
        """End a process that may have been started although its result is no longer needed."""
        if self.ended is None:
            task = asyncio.ensure_future(self.call("process/terminate", {"processId": process_id}))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        process_id = params.get("processId")
        if isinstance(process_id, str) and (process := self._processes.get(process_id)) is not None:
            if method == "process/closed":
                self._forget(process_id)
            await process.notified(method, params)

    def _forget(self, process_id: str) -> None:
        self._processes.pop(process_id, None)

    def _lost(self, reason: str) -> None:
        processes, self._processes = self._processes, {}
        for process in processes.values():
            process.lost(reason)
        self._tell_lost(reason, tuple(processes))

    async def aclose(self) -> None:
        """End all processes, and close the connection."""
        if self.ended is None:
            await self._terminate(tuple(self._processes), _CLOSE_S)
        await self._peer.aclose()
        processes, self._processes = self._processes, {}
        for process in processes.values():
            process.lost("the connection was closed")


def _info(given: object) -> EnvironmentInfo:
    """Return the server's facts about its machine. Raises ConnectionError."""
    fields = given if isinstance(given, Mapping) else {}
    shell = fields.get("shell")
    path = shell.get("path") if isinstance(shell, Mapping) else None
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise ConnectionError(f"the server names no shell of a POSIX system: {given!r:.200}")
    return EnvironmentInfo(
        shell=path, home=path_of(fields.get("userHomeDir")), temporary=path_of(fields.get("tempDir"))
    )
