"""The server: its kernels, the loaded threads, and the clients."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from codex_framework import Thread, ThreadStore
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.policies import ReadOnly
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_app_server.connection import Connection, PendingCall, Transport, encode_notification
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.file_watching import FileWatcher
from codex_plugin_app_server.kernels import Kernels
from codex_plugin_app_server.logins import Logins
from codex_plugin_app_server.requests import ServerRequests
from codex_plugin_app_server.skill_watching import SkillWatch
from codex_plugin_app_server.table import Json, Method
from codex_plugin_app_server.thread_notes import ThreadNotes
from codex_plugin_app_server.threads import NOT_LOADED, LoadedThread

__all__ = ["Call", "Server", "checked_id"]

T = TypeVar("T")

UNLOAD_AFTER_S = 30 * 60
_LONGEST_S = 1e9  # a longer timer cannot be set
_BUSY_S = 1.0  # until a thread whose sub-agent works is looked at again, at least


class Call(PendingCall):
    """A request of a client, for its handler."""

    def __init__(self, server: Server, connection: Connection, request_id: str | int, params: Json) -> None:
        super().__init__(connection, request_id, params)
        self.server = server


class Server:
    """The server, as used by the handlers of methods.

    Attributes:
        kernels: The kernels of the threads.
        kernel: The kernel of the server's own folder.
        methods: The table of methods.
        threads: The loaded threads, by id.
        requests: The questions to clients.
        notes: The notes of clients about threads.
        file_watcher: Watches files for clients.
        skill_watch: Watches the skills that clients have listed.
        logins: The login with ChatGPT that is under way.
        rate_limits: The newest rate limits that a model's server has told. None before the first.
    """

    def __init__(self, kernels: Kernels, methods: Mapping[str, Method]) -> None:
        self.kernels = kernels
        self.kernel = kernels.base
        self.methods = methods
        self.threads: dict[str, LoadedThread] = {}
        self.requests = ServerRequests()
        self.notes = ThreadNotes(Path(self.home))
        self.file_watcher = FileWatcher()
        self.skill_watch = SkillWatch(self.file_watcher, lambda: self.broadcast("skills/changed", {}))
        self.logins = Logins(self.broadcast)
        self.rate_limits: Json | None = None
        self._connections: set[Connection] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unloading: set[asyncio.Task[None]] = set()

    # Clients

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it leaves."""
        connection = Connection(self, transport)
        self._connections.add(connection)
        await connection.serve()

    def open_call(self, connection: Connection, request_id: str | int, params: Json) -> Call:
        """Return the argument of a handler."""
        return Call(self, connection, request_id, params)

    def take_answer(self, connection: Connection, number: object, message: Mapping[str, Any]) -> None:
        """Take a client's answer to a request of the server."""
        self.requests.take_answer(connection, number, message)

    def forget(self, connection: Connection) -> None:
        """Take note that a client has left. Its threads stay loaded."""
        self._connections.discard(connection)
        for thread in list(self.threads.values()):
            thread.leave(connection)

    def broadcast(self, method: str, params: Json) -> None:
        """Send a notification to all clients."""
        message = encode_notification(method, params)
        for connection in tuple(self._connections):
            connection.send_notification(method, message)

    def report(self, what: str, error: Exception) -> None:
        """Print a defect to stderr."""
        print(
            f"error: {printable(what)} failed: {printable(f'{type(error).__name__}: {error}')}",
            file=sys.stderr,
            flush=True,
        )

    # Threads

    def load(self, thread: Thread, unload_after_s: float | None) -> LoadedThread:
        """Follow a thread of a kernel.

        Args:
            unload_after_s: How long an idle thread stays loaded without followers. The default is half an hour, as in Codex.
        """
        delay = UNLOAD_AFTER_S if unload_after_s is None else min(unload_after_s, _LONGEST_S)
        loaded = self.threads[thread.id] = LoadedThread(thread, self, unload_after_s=delay)
        return loaded

    def lock(self, thread_id: str) -> asyncio.Lock:
        """Return the lock for loading or unloading a thread."""
        return self._locks.setdefault(thread_id, asyncio.Lock())

    def note_rate_limits(self, limits: Json) -> None:
        """Keep rate limits that a model's server has told, and tell all clients."""
        self.rate_limits = limits
        self.broadcast("account/rateLimits/updated", {"rateLimits": limits})

    async def unload(self, thread: LoadedThread) -> None:
        """Shut a thread down, and tell all clients."""
        await thread.close()
        self.broadcast("thread/status/changed", {"threadId": thread.id, "status": NOT_LOADED})

    def unload_idle(self, thread: LoadedThread) -> None:
        """Unload a thread after a time without followers, if it is still idle."""

        async def unload() -> None:
            async with self.lock(thread.id):
                if not thread.is_idle or self._has_running_child(thread.id):
                    thread.wait_idle(_BUSY_S)
                    return
                self.threads.pop(thread.id, None)
                await self.unload(thread)
            self.broadcast("thread/closed", {"threadId": thread.id})

        task = asyncio.ensure_future(unload())
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)

    def _has_running_child(self, thread_id: str) -> bool:
        threads = (thread for kernel in self.kernels.running for thread in kernel.threads.values())
        return any(each.meta.extra.get("parent_thread_id") == thread_id and each.running for each in threads)

    def forget_thread(self, thread: LoadedThread) -> None:
        """Take note that a thread has ended."""
        self.requests.forget(thread)
        if self.threads.get(thread.id) is thread:
            del self.threads[thread.id]
        self.kernels.close_idle()

    def running_turn(self, thread_id: str) -> str | None:
        """Return the id of the turn that runs in a thread, or None."""
        loaded = self.threads.get(thread_id)
        return None if loaded is None else loaded.thread.turn_id

    def thread(self, thread_id: str) -> LoadedThread:
        """Return a loaded thread. Raises RpcError."""
        found = self.threads.get(checked_id(thread_id))
        if found is None:
            raise RpcError(f"thread not found: {thread_id}")
        return found

    async def ask(
        self, tag: str, answer: str, folder: Path | None = None, flags: Mapping[str, Any] | None = None, **fields: Any
    ) -> Json | None:
        """Submit an op of a plugin to a temporary thread, which is not stored.

        Args:
            tag: The op.
            answer: The event that answers it.
            folder: The folder of the thread, by default the server's.
            flags: Keys of the configuration with values that override all others.
            fields: The fields of the op.

        Returns:
            The event as JSON data. None if no plugin handles the op.

        Raises:
            RpcError: The op was refused.
            CodexError: No thread can work in the folder.
        """
        async with self.kernels.at(folder, flags) as kernel:
            if tag not in kernel.registry.ops:
                return None
            servers = kernel.config.get("mcp_servers") or {}
            config = {"mcp_servers": {name: {"enabled": False} for name in servers}}  # nobody calls them
            thread = await kernel.start_thread(
                config=config, ephemeral=True, approval_policy="on-request", sandbox_policy=ReadOnly()
            )
            try:
                events = thread.events(answers=False)
                submission = await thread.submit(kernel.op(tag, **fields))
                events.end()
                seen = [event.msg async for event in events if event.id == submission]
            finally:
                await thread.shutdown()
        for msg in seen:
            if isinstance(msg, ErrorEvent):
                raise RpcError(msg.message)
        found: Json = next(to_wire(msg) for msg in seen if msg.type == answer)
        return found

    async def aclose(self) -> None:
        """Shut down all threads, and cancel a login that is under way."""
        await self.logins.end()
        await asyncio.gather(*self._unloading)
        for thread in list(self.threads.values()):
            await thread.close()
        await self.file_watcher.aclose()

    # Stored threads

    @property
    def home(self) -> str:
        """``$CODEX_HOME``."""
        return str(self.kernel.config.codex_home)

    async def with_store(self, use: Callable[[ThreadStore], T]) -> T:
        """Use the thread store on a separate thread, because it reads and writes files.

        Raises:
            ThreadError: No plugin offers the configured store, or the store failed.
        """
        return await asyncio.to_thread(use, self.kernel.thread_store)


_GROUPS = (8, 4, 4, 4, 12)
"""Hexadecimal digits of a UUID between its hyphens."""


def checked_id(thread_id: str) -> str:
    """Return the id of a thread in its usual form. Raises RpcError if it cannot be one."""
    if not _UUID.fullmatch(thread_id):
        raise RpcError(f"invalid thread id: {_id_problem(thread_id)}")
    return str(UUID(thread_id))


_HYPHENATED = "-".join(f"[0-9a-fA-F]{{{length}}}" for length in _GROUPS)
_UUID = re.compile(rf"[0-9a-fA-F]{{32}}|(urn:uuid:)?{_HYPHENATED}|\{{{_HYPHENATED}\}}", re.ASCII)


def _id_problem(text: str) -> str:
    """Return why a text is no UUID, in the words of the library that Codex uses."""
    braced = text.startswith("{") and text.endswith("}")
    body = text[1:-1] if braced else text.removeprefix("urn:uuid:")
    if stranger := re.search("[^0-9a-fA-F-]", body):
        place = len((text[: text.index(body)] + body[: stranger.start()]).encode()) + 1
        prefix = "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-]"
        return f"{prefix}, found `{stranger[0]}` at {place}"
    groups = body.split("-")
    if body == text and len(groups) == 1:
        return f"invalid length: expected length 32 for simple format, found {len(text)}"
    if len(groups) != len(_GROUPS):
        return f"invalid group count: expected {len(_GROUPS)}, found {len(groups)}"
    group = next(number for number, length in enumerate(_GROUPS) if len(groups[number]) != length)
    return f"invalid group length in group {group}: expected {_GROUPS[group]}, found {len(groups[group])}"
