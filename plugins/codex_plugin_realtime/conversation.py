"""A running conversation: the connection to the realtime server, and the exchange between it and the thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework import CodexError, Event, PluginContext, ThreadContext, ThreadError
from codex_framework.contract.protocol.events import (
    AgentMessageEvent,
    ErrorEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.ops import MAX_USER_INPUT_TEXT_CHARS
from codex_lib_model_client.transport_errors import CutError, SilenceError
from codex_plugin_realtime.delegation import Delegations
from codex_plugin_realtime.dialogue import Dialogue
from codex_plugin_realtime.events import (
    RealtimeConversationClosedEvent,
    RealtimeConversationRealtimeEvent,
    RealtimeConversationSdpEvent,
    RealtimeConversationStartedEvent,
)
from codex_plugin_realtime.messages import Session, encoded, session_update
from codex_plugin_realtime.outbox import Outbox
from codex_plugin_realtime.parsing import NotJSONError, Payload, parsed

if TYPE_CHECKING:
    from codex_lib_model_client.websocket import WebSocket
    from codex_plugin_realtime.connecting import Connector

__all__ = ["Conversation", "told"]

T = TypeVar("T")

_SILENCE_S = 30.0
"""How long the server may be silent before it is asked for a sign of life, and then again until it counts as dead, in seconds."""

_UNREAD_S = 60.0
"""How long the server may leave sent data unread, in seconds, before it counts as dead."""

_ROLES = ("user", "developer", "assistant")
_GOING = (1000, 1001)
"""The codes with which a server closes a connection as usual."""

_LAST_S = 5.0
"""How long the last requests of a conversation may take until the thread has them, in seconds."""


class _Ended(Exception):  # noqa: N818  # what has happened, in a word
    """The conversation is over.

    Attributes:
        reason: The reason for clients.
        message: The error. Empty if there was no error.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


def told(error: CodexError) -> str:
    """Return what clients are told of an error: the fact, and what to do."""
    return f"{error.fact.rstrip('.')}. {error.hint}" if error.hint else error.fact


class Conversation:
    """A conversation of a thread.

    Args:
        context: Text that is added to the instructions. None if it is created when the conversation starts.
        forwards: Whether the voice model receives the output of the thread's model.
        on_end: Called when the conversation is over.

    Attributes:
        submission: The id of the op that started it, which is the id of all of its events.
        is_active: Whether it is connected.
    """

    def __init__(
        self,
        *,
        on_end: Callable[[Conversation], None],
        plugin: PluginContext,
        thread: ThreadContext,
        submission: str,
        session: Session,
        connector: Connector,
        context: str | None,
        forwards: bool,
    ) -> None:
        self.submission = submission
        self.is_active = False
        self._on_end = on_end
        self._plugin = plugin
        self._thread = thread
        self._session = session
        self._connector = connector
        self._context = context
        self._forwards = forwards
        self._dialogue = Dialogue(session.version)
        self._outbox = Outbox()
        self._delegations = Delegations(thread)
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_full = False
        self._has_warned = False

    # What clients do

    def audio(self, data: str) -> None:
        """Add audio of the user. If the server does not keep up, it is dropped, with one warning until it does."""
        if self._outbox.has_room("audio"):
            self._is_full = False
            self._outbox.add("audio", self._dialogue.audio(data))
        elif not self._is_full:
            self._is_full = True
            self._thread.warn("The realtime server does not keep up: audio of the user is dropped until it does.")

    def text(self, text: str, role: str) -> None:
        """Add a text.

        Raises:
            ThreadError: There is no such role, the text is too long, or the server does not keep up.
        """
        if role not in _ROLES:
            raise ThreadError(
                f"the role {role!r} is unknown: it must be one of {', '.join(_ROLES)}",
                slug="realtime-text",
                hint="Leave it out for the user.",
            )
        self._add_text(text, lambda: self._dialogue.text(text, role))

    def speech(self, text: str) -> None:
        """Add text to be spoken. Raises like :meth:`text`."""
        self._add_text(text, lambda: self._dialogue.speech(text))

    def _add_text(self, text: str, messages: Callable[[], list[Mapping[str, Any]]]) -> None:
        if len(text) > MAX_USER_INPUT_TEXT_CHARS:
            raise ThreadError(
                f"the text has {len(text)} characters, and {MAX_USER_INPUT_TEXT_CHARS} are allowed",
                slug="realtime-text",
                hint="Shorten it.",
            )
        if not self._outbox.has_room("text"):
            raise ThreadError(
                "the realtime server does not keep up, so the text was not sent",
                slug="realtime-text",
                hint="Try again later.",
            )
        self._outbox.add("text", messages())

    async def stop(self) -> None:
        """End the conversation, and wait for its end. No event reports it."""
        self._stopping.set()
        await self._ended.wait()

    def give_up(self) -> None:
        """Take the conversation for ended: its thread has ended, perhaps before it could begin."""
        self._on_end(self)
        self._ended.set()

    # The course of a conversation

    async def run(self) -> None:
        """Connect, and run until one side ends the conversation."""
        socket: WebSocket | None = None
        events = self._thread.events()
        try:
            socket = await self._unless_stopped(self._opened(), lambda opened: opened.leave())
            await self._unless_stopped(self._together(socket, events))
        except _Ended as end:
            self._tell_end(end)
        except CodexError as error:
            self._tell_end(_Ended("error", told(error)))
        finally:
            self.is_active = False
            events.close()
            if socket is not None:
                socket.leave()
            self.give_up()

    def _tell_end(self, end: _Ended) -> None:
        """Tell clients of an end that they have not asked for. A conversation that has not begun has no end."""
        has_begun, self.is_active = self.is_active, False
        if end.reason == "requested":
            return
        if end.message:
            self._tell({"Error": self._connector.credentials.text(end.message)})
        if has_begun:
            self._thread.emit(RealtimeConversationClosedEvent(end.reason), id=self.submission)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T], leave: Callable[[T], None] | None = None) -> T:
        """Await something, and raise _Ended if the client ends the conversation meanwhile.

        Args:
            leave: Called with a result that arrived too late.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stopping.wait())
        is_wanted = False
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                raise _Ended("requested")
            is_wanted = True
            return task.result()
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.wait((task,))
            has_failed = task.cancelled() or task.exception() is not None
            if leave is not None and not is_wanted and not has_failed:
                leave(task.result())

    async def _opened(self) -> WebSocket:
        """Connect and set the session up."""
        session = await self._with_context()
        connected = await self._connector.connect()
        self.is_active = True
        self._thread.emit(
            RealtimeConversationStartedEvent(session.session_id, session.version),
            id=self.submission,
        )
        if connected.sdp is not None:
            self._thread.emit(RealtimeConversationSdpEvent(connected.sdp), id=self.submission)
        socket = connected.socket
        if socket is None:
            socket = await self._connector.join(connected.call_id)
        try:
            socket.send(encoded(session_update(session)))
        except CutError as error:
            socket.leave()
            raise _Ended("error", f"the realtime server closed the connection: {error}") from error
        return socket

    async def _with_context(self) -> Session:
        context = self._context
        if context is None:
            from codex_plugin_realtime.startup import startup_context

            context = await asyncio.to_thread(startup_context, self._thread, self._plugin)
        texts = (self._session.instructions, context)
        self._session = self._session.evolve(instructions="\n\n".join(text for text in texts if text))
        self._connector.session = self._session
        return self._session

    async def _together(self, socket: WebSocket, events: Any) -> None:
        """Read, write and follow the thread concurrently. The first one that ends, ends all. Raises _Ended or CodexError."""
        work: list[Callable[[], Awaitable[None]]] = [
            lambda: self._read(socket),
            lambda: self._write(socket),
            lambda: self._follow(events),
            self._delegations.run,
        ]
        tasks = [asyncio.ensure_future(each()) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0] in done:
                await self._delegations.finished(_LAST_S)  # what was handed off is done, although the voice is gone
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # What the server says

    async def _read(self, socket: WebSocket) -> None:
        is_asked = False
        while True:
            try:
                piece = await socket.read(_SILENCE_S)
            except SilenceError:
                if is_asked:
                    raise _Ended("error", f"the realtime server was silent for {2 * _SILENCE_S:.0f} s") from None
                is_asked = True
                _ask(socket)
                continue
            except CutError as error:
                raise _connection_lost(socket, error) from error
            is_asked = False
            try:
                texts = socket.feed(piece)
            except CutError as error:
                raise _connection_lost(socket, error) from error
            except OverflowError as error:
                raise _Ended("error", f"the realtime server sent {error}") from error
            for text in texts:
                await self._received(text)

    async def _received(self, text: str) -> None:
        try:
            payload = parsed(text, self._session.version)
        except NotJSONError:
            if not self._has_warned:
                self._has_warned = True
                self._thread.warn(
                    "The realtime server sent a message that is not a JSON object. Such messages are ignored."
                )
            return
        if payload is None:
            return
        if "Error" in payload:
            raise _Ended("error", payload["Error"])
        await self._outbox.add_when_free("output", self._dialogue.received(payload))
        if "HandoffRequested" in payload:
            await self._delegations.add(payload["HandoffRequested"])
        self._tell(payload)

    def _tell(self, payload: Payload) -> None:
        self._thread.emit(RealtimeConversationRealtimeEvent(payload), id=self.submission)

    # What the thread does

    async def _follow(self, events: Any) -> None:
        async for event in events:
            await self._outbox.add_when_free("output", self._messages_for(event))
        raise _Ended("error", "the thread has ended, or goes too fast for the realtime server")

    def _messages_for(self, event: Event) -> list[Mapping[str, Any]]:
        match event.msg:
            case UserMessageEvent(message=text) if not self._delegations.took_up(text, event.id):
                return self._dialogue.typed(text)
            case AgentMessageEvent(message=text, phase=phase) if self._forwards:
                return self._dialogue.written(text, phase)
            case ErrorEvent(message=text) if (handoff := self._delegations.refused(event.id)) is not None:
                return self._dialogue.refused(handoff, text)
            case TurnCompleteEvent(error=error) if self._delegations.ended(event.id):
                return self._finished(reason=str((error or {}).get("message") or "") if error else "")
            case TurnAbortedEvent() if self._delegations.ended(event.id):
                return self._finished(stopped=True)
            case _:
                return []

    def _finished(self, *, stopped: bool = False, reason: str = "") -> list[Mapping[str, Any]]:
        if self._forwards:
            return self._dialogue.finished(stopped=stopped, reason=reason)
        self._dialogue.handoff = None
        return []

    # What is sent

    async def _write(self, socket: WebSocket) -> None:
        while True:
            message = await self._outbox.next()
            try:
                async with asyncio.timeout(_UNREAD_S):
                    await socket.drain()
            except TimeoutError:
                raise _Ended("error", f"the realtime server has not read for {_UNREAD_S:.0f} s") from None
            try:
                socket.send(message)
            except CutError:
                await asyncio.Event().wait()  # the reader knows why, and ends the conversation


def _ask(socket: WebSocket) -> None:
    try:
        socket.ping()
    except CutError as error:
        raise _connection_lost(socket, error) from error


def _connection_lost(socket: WebSocket, error: CutError) -> _Ended:
    code = socket.close_code
    if code is None:
        return _Ended("error", f"the connection to the realtime server was lost: {error}")
    if code in _GOING:
        return _Ended("transport_closed")
    return _Ended("error", f"the realtime server closed the connection: {code} {socket.close_reason}".rstrip())
