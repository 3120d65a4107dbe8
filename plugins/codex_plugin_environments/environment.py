"""An environment that an exec-server offers."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from codex_framework import CommandFailed, Environment, EnvironmentInfo, FileAccess
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_framework.contract.roles.sandboxes import Confinement, Launch
from codex_plugin_environments.channels import opened
from codex_plugin_environments.configuration import Place
from codex_plugin_environments.confining import sandbox_of
from codex_plugin_environments.files import RemoteFiles
from codex_plugin_environments.processes import RemoteProcess
from codex_plugin_environments.session import Session

__all__ = ["RemoteEnvironment"]


_PATIENCE_S = 5.0
"""How long disconnecting may take after a loss, in seconds."""


class RemoteEnvironment(Environment):
    """Another machine. It is connected when it is first needed, and again after a loss.

    Args:
        place: The server and the way to it.
        environ: The environment of programs that connect to servers.
    """

    def __init__(self, place: Place, environ: Mapping[str, str]) -> None:
        self.id = place.id
        self._place = place
        self._environ = environ
        self._info: EnvironmentInfo | None = None
        self._fault = ""
        self._session: Session | None = None
        self._connecting = asyncio.Lock()
        self._left: tuple[str, Sequence[str]] = ("", ())
        self._tasks: set[asyncio.Future[object]] = set()
        self._closed = False

    @property
    def info(self) -> EnvironmentInfo | None:
        """The server's facts about its machine."""
        return self._info

    @property
    def fault(self) -> str:
        """Why the last connection has failed."""
        return self._fault

    async def connect(self) -> EnvironmentInfo:
        """Connect if that is necessary. Raises ConnectionError."""
        await self.session()
        assert self._info is not None
        return self._info

    async def session(self) -> Session:
        """Return the connection. Raises ConnectionError."""
        async with self._connecting:
            if self._session is not None and self._session.ended is None:
                return self._session
            self._check_open()
            try:
                session = await self._connected()
            except ConnectionError as error:
                self._fault = self._place.shown(str(error))
                raise ConnectionError(f"the environment `{self.id}` cannot be used: {self._fault}") from None
            try:
                self._check_open()
            except ConnectionError:  # it was closed while it was connected
                await session.aclose()
                raise
            self._fault, self._session = "", session
            return session

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionError(f"the environment `{self.id}` is closed")

    async def _connected(self) -> Session:
        session = Session(await opened(self._place, self._environ), self._lost, self._place.shown)
        try:
            self._info = await session.begin(self._place.initialize_timeout_s, *self._left)
        except BaseException:
            await session.aclose()
            raise
        self._left = ("", ())
        return session

    def _lost(self, reason: str, left: Sequence[str]) -> None:
        self._fault = self._place.shown(reason)
        session, self._session = self._session, None
        if session is None:
            return
        self._spawn(session.aclose())
        if left:  # they are ended as soon as the server can be reached again
            self._left = (session.id, left)
            self._spawn(self.session())

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the fault tells it

    async def call(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a method of the server. Raises RemoteError, and ConnectionError."""
        return await (await self.session()).call(method, params)

    def confine(self, access: FileAccess, cwd: str, variables: Mapping[str, Any]) -> Confinement:
        """Create a plan for commands."""
        is_cut_off = access.confines and access.network is NetworkMode.OFF
        return _RemoteConfinement(self, sandbox_of(access, cwd), _policy(variables), is_cut_off=is_cut_off)

    def files(self, access: FileAccess, cwd: str) -> RemoteFiles:
        """Return its files."""
        return RemoteFiles(self.call, access, cwd)

    async def aclose(self) -> None:
        """End its processes, and disconnect."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_PATIENCE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class _RemoteConfinement(Confinement):
    def __init__(
        self,
        environment: RemoteEnvironment,
        sandbox: Mapping[str, Any] | None,
        policy: Mapping[str, Any],
        *,
        is_cut_off: bool,
    ) -> None:
        self._environment = environment
        self._sandbox = sandbox
        self._policy = policy
        self._is_cut_off = is_cut_off

    @property
    def env(self) -> Mapping[str, str]:
        """``CODEX_SANDBOX_NETWORK_DISABLED=1`` if the network cannot be reached."""
        return {"CODEX_SANDBOX_NETWORK_DISABLED": "1"} if self._is_cut_off else {}

    async def start(self, launch: Launch) -> RemoteProcess:
        if stat.S_ISFIFO(os.fstat(launch.stdin).st_mode):  # the protocol has no way to end the input
            hint = "Give it the input as a file."
            raise CommandFailed("a command in another environment cannot get a standard input", hint=hint)
        try:
            session = await self._environment.session()
            return await session.start(launch, self._policy, self._sandbox)
        except ConnectionError as error:
            hint = "Try again, or work in another environment."
            raise CommandFailed(str(error), hint=hint) from None


def _policy(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``[shell_environment_policy]`` as the server takes it."""
    table = variables if isinstance(variables, Mapping) else {}
    return {
        "inherit": table.get("inherit", "all"),
        "ignoreDefaultExcludes": table.get("ignore_default_excludes") is True,
        "exclude": list(table.get("exclude", ())),
        "set": dict(table.get("set", {})),
        "includeOnly": list(table.get("include_only", ())),
    }
