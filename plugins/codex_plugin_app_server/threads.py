"""Loaded threads: each is followed by one task, whose notifications go to all clients of the thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from codex_framework import Event, EventMsg, Op, Request, RequestResolvedEvent, ResponseItem, Thread
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    SessionConfiguredEvent,
    ShutdownCompleteEvent,
    ThreadSettingsAppliedEvent,
    TokenCountEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
)
from codex_plugin_app_server.connection import Connection, PendingCall, encode_notification
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.notifications import Translator, rate_limits_json
from codex_plugin_app_server.requests import ServerRequests
from codex_plugin_app_server.settings_json import thread_settings_json
from codex_plugin_app_server.table import Json

__all__ = ["NOT_LOADED", "LoadedThread", "ThreadHost"]

NOT_LOADED: Json = {"type": "notLoaded"}
"""The ``ThreadStatus`` of a thread that is not loaded."""


class ThreadHost(Protocol):
    """The server, for its threads."""

    @property
    def requests(self) -> ServerRequests:
        """The questions to clients."""
        ...

    def broadcast(self, method: str, params: Json) -> None:
        """Send a notification to all clients."""
        ...

    def note_rate_limits(self, limits: Json) -> None:
        """Take note of rate limits that a model's server has told."""
        ...

    def unload_idle(self, thread: LoadedThread) -> None:
        """Unload a thread after a time without followers, if it is still idle."""
        ...

    def forget_thread(self, thread: LoadedThread) -> None:
        """Take note that a thread has ended."""
        ...

    def report(self, what: str, error: Exception) -> None:
        """Report a defect of the server."""
        ...


class LoadedThread:
    """A thread that runs in this process, and the clients that follow it.

    Attributes:
        thread: The kernel's thread.
        connections: The clients that get its notifications and can answer its questions.

    Args:
        unload_after_s: How long an idle thread stays loaded without followers, in seconds.
    """

    def __init__(self, thread: Thread, host: ThreadHost, *, unload_after_s: float) -> None:
        self.thread = thread
        self.connections: list[Connection] = []
        self._host = host
        self._requests = host.requests
        self._unload_after_s = unload_after_s
        self._unloading: asyncio.TimerHandle | None = None
        self._translator = Translator(thread.id)
        self._turn_id: str | None = None  # the running turn that clients know of
        self._failed = False
        self._shown: Json = NOT_LOADED
        self._refused: set[str] = set()  # ops whose errors are responses
        self._holds = 0
        self._uses = 0
        self._released = asyncio.Event()
        self._released.set()
        self._following = asyncio.ensure_future(self._follow(thread.events()))
        self.wait_idle()

    @property
    def id(self) -> str:
        """The thread's id."""
        return self.thread.id

    @property
    def status(self) -> dict[str, Any]:
        """The ``ThreadStatus``."""
        if self._failed:
            return {"type": "systemError"}
        if self._turn_id is None:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": self._requests.waits_for(self)}

    @property
    def is_idle(self) -> bool:
        """Whether the thread has no followers and no running work."""
        return not (self.connections or self._holds or self._uses or self._turn_id or self.thread.running)

    def wait_idle(self, at_least_s: float = 0.0) -> None:
        """Unload the thread after a while if it is idle until then."""
        if self._unloading is not None:
            self._unloading.cancel()
            self._unloading = None
        if self.is_idle:
            loop = asyncio.get_running_loop()
            delay = max(self._unload_after_s, at_least_s)
            self._unloading = loop.call_later(delay, self._host.unload_idle, self)

    def subscribe(self, call: PendingCall) -> None:
        """Let the client of a call follow the thread, once it has the response."""
        connection = call.connection

        def begin() -> None:
            if connection not in self.connections and not self._following.done():
                self.connections.append(connection)
                self._requests.ask_again(self, connection)

        self.hold(call)
        call.then(begin)

    def leave(self, connection: Connection) -> bool:
        """Send a client nothing more. Return whether it followed the thread."""
        if connection not in self.connections:
            return False
        self.connections.remove(connection)
        if not self.connections:
            self._requests.begin_absence(self)
            self.wait_idle()
        return True

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Keep the thread loaded for the block, even without followers."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self.wait_idle()

    def hold(self, call: PendingCall) -> None:
        """Send no notifications of the thread before the response to a call."""
        self._holds += 1
        self._released.clear()
        call.then(self._release)

    def _release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self._released.set()
            self.wait_idle()

    async def run_op(self, call: PendingCall, op: Op) -> tuple[str, list[Event]]:
        """Submit an op. Return the turn that it has started or reached, and the events up to the end of its handler.

        Raises:
            RpcError: The op was refused. No notification says so.
        """
        self.hold(call)
        events = self.thread.events(answers=False)
        try:
            submission = await self.thread.submit(op)
            turn_id = self.thread.turn_id or submission  # clients may not know yet that another turn has begun
            events.end()
            seen = [event async for event in events]
        finally:
            events.close()
        for event in seen:
            if event.id == submission and isinstance(event.msg, ErrorEvent):
                self._refused.add(submission)
                raise RpcError(event.msg.message)
        return turn_id, seen

    async def deliver_input(self, call: PendingCall, items: Sequence[ResponseItem], event: EventMsg) -> str:
        """Give items to the running turn, or start a turn with them. Return the turn's id."""
        self.hold(call)
        if (running := self.thread.turn_id) is not None:
            self.thread.deliver(items, "steer", event=event)
            return running
        started = self.thread.events([TurnStartedEvent], answers=False)
        try:
            self.thread.deliver(items, "steer", trigger=True, event=event)
            return (await anext(started)).id
        finally:
            started.close()

    def notify(self, method: str, params: Json, *, droppable: bool = False) -> None:
        """Send a notification to all clients of the thread."""
        if self.connections:
            message = encode_notification(method, params)
            for connection in tuple(self.connections):
                connection.send_notification(method, message, droppable=droppable)

    def show_status(self) -> None:
        """Tell all clients the status if it has changed."""
        status = self.status
        if status != self._shown:
            self._shown = status
            self._host.broadcast("thread/status/changed", {"threadId": self.id, "status": status})

    async def close(self) -> None:
        """Shut the thread down, and wait until its clients have been told of everything."""
        await self.thread.shutdown()
        await asyncio.wait((self._following,))

    async def _follow(self, events: Any) -> None:
        try:
            async for event in events:
                await self._released.wait()
                try:
                    self._show(event)
                except Exception as error:  # what cannot be shown must not hide what follows
                    self._host.report(f"the event {event.msg.type}", error)
        finally:
            if self._unloading is not None:
                self._unloading.cancel()
            self._host.forget_thread(self)

    def _show(self, event: Event) -> None:
        match event.msg:
            case SessionConfiguredEvent() | ShutdownCompleteEvent():
                return
            case ErrorEvent() if event.id in self._refused:
                self._refused.discard(event.id)
                return
            case ThreadSettingsAppliedEvent():
                shown = thread_settings_json(self.thread.settings)
                message = encode_notification("thread/settings/updated", {"threadId": self.id, "threadSettings": shown})
                for connection in self.connections:
                    if connection.client is not None and connection.client.experimental:  # as in Codex
                        connection.send_notification("thread/settings/updated", message)
            case ErrorEvent() if event.id == self._turn_id:
                self._failed = True
                self.show_status()
            case TurnStartedEvent(turn_id=turn_id):
                self._turn_id, self._failed = turn_id, False
                self.show_status()
            case TurnCompleteEvent() | TurnAbortedEvent():
                self._turn_id = None
                self.show_status()
                self.wait_idle()
            case _:
                pass
        question: int | None = None
        if isinstance(event.msg, Request):
            question = self._requests.open(self, event.msg, event.thread_id or self.id, self._turn_id or event.id)
        if not event.thread_id:  # a child shows itself in a thread of its own
            for note in self._translator.translate(event):
                self.notify(note.method, note.params, droppable=note.droppable)
        if question is not None:
            self._requests.ask(question)
        match event.msg:
            case TokenCountEvent(rate_limits=limits) if limits is not None:
                self._host.note_rate_limits(rate_limits_json(limits))
            case RequestResolvedEvent(request_id=request_id):
                self._requests.resolve(self, request_id)
            case _:
                pass
