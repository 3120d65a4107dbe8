"""The open requests of a thread: their waiters, their answers, and their ends.

:class:`Requests` is a state machine without I/O, like the turn: a method takes an event and returns the steps to perform.
:class:`RequestDesk` performs them: it keeps the waiters and the timers, emits events, and passes the requests of a thread without
clients up to its parent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from codex_framework.contract.errors import ThreadError, TurnEnded
from codex_framework.contract.protocol.events.command import ExecApprovalRequestEvent
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.requests import Closed, Request, RequestResolvedEvent
from codex_framework.contract.protocol.events.thread import WarningEvent
from codex_framework.contract.value import Value
from codex_framework.threads.faults import check_type, error_message, source_place

__all__ = ["Effect", "Fail", "Release", "RequestDesk", "Requests", "Tell", "subject_of"]

A = TypeVar("A")


class Tell(Value):
    """Tell the clients. For a request, this follows the creation of its waiter, so that it can be answered immediately."""

    scope: str
    msg: EventMsg


class Release(Value):
    """Pass an answer to the waiter. With ``how`` ABORTED, the waiter is cancelled without an answer."""

    request_id: str
    answer: Any
    how: Closed


class Fail(Value):
    """Pass an error to the waiter: no answer is possible, and the request has no unattended answer."""

    request_id: str
    text: str


Effect: TypeAlias = Tell | Release | Fail


class Requests:
    """The set of open requests. A request belongs to a *scope*: the id of a turn, or the empty text for the thread itself."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Request[Any], str]] = {}
        self._used: dict[str, None] = {}  # a dict, because an empty set is three times as large
        self._serial = 0

    @property
    def open(self) -> Sequence[Request[Any]]:
        """The open requests, oldest first."""
        return [request for request, _ in self._open.values()]

    def is_used(self, request_id: str) -> bool:
        """Return whether a request had this id."""
        return request_id in self._used

    def with_new_id(self, request: Request[A]) -> Request[A]:
        """Return the request with an id that no other one has had, not even a closed one.

        The model chooses the ids of calls. A late or repeated answer to an earlier request must not answer a new one.
        """
        request_id = wanted = request.request_id
        while not request_id or request_id in self._used:
            self._serial += 1
            request_id = f"{wanted or 'request'}-{self._serial}"
        self._used[request_id] = None
        return request if request_id == wanted else request.with_id(request_id)

    def ask(self, request: Request[Any], scope: str, *, attended: bool) -> list[Effect]:
        """Open a request with an unused id. If no client can answer, it is closed in the same step."""
        self._open[request.request_id] = (request, scope)
        shown: list[Effect] = [Tell(scope, request)]
        if attended:
            return shown
        if not (isinstance(request, ExecApprovalRequestEvent) and request.precaution):
            warning = WarningEvent(
                f"nobody can answer, so the answer is no: {subject_of(request)}", slug="nobody-answers"
            )
            shown.append(Tell(scope, warning))
        return [*shown, *self._close_without_answer(request.request_id, Closed.UNATTENDED)]

    def answer(self, request_id: str, answer: Any) -> list[Effect]:
        """Handle an answer. An answer to a request that is not open changes nothing."""
        return self._close(request_id, answer, Closed.ANSWERED)

    def expire(self, request_id: str) -> list[Effect]:
        """Close a request whose time limit has expired."""
        return self._close_without_answer(request_id, Closed.TIMED_OUT)

    def leave(self, request_id: str) -> list[Effect]:
        """Close a request that no client wants to answer."""
        return self._close_without_answer(request_id, Closed.UNATTENDED)

    def withdraw(self, request_id: str) -> list[Effect]:
        """Close a request whose waiter has been cancelled."""
        return self._close(request_id, None, Closed.ABORTED)

    def abort(self, scope: str | None) -> list[Effect]:
        """Close every request of a scope. Without a scope, close all requests."""
        ids = [request_id for request_id, (_, of) in self._open.items() if scope is None or of == scope]
        return [effect for request_id in ids for effect in self._close(request_id, None, Closed.ABORTED)]

    def _close_without_answer(self, request_id: str, how: Closed) -> list[Effect]:
        if request_id not in self._open:
            return []
        request, scope = self._open[request_id]
        name = f"{type(request).__qualname__}.unattended()"
        try:
            answer = check_type(request.unattended(), request.answer_type, "it", request.unattended)
        except Exception as error:  # a plugin's class may fail, but its waiter must not wait for ever
            if isinstance(error, NotImplementedError) and type(request).unattended is Request.unattended:
                problem = f"{name} is not implemented{source_place(type(request))}"
            else:
                problem = f"{name} failed: {error_message(error)}"
            del self._open[request_id]
            fail = Fail(request_id, f"nobody can answer {subject_of(request)}, and {problem}")
            return [
                Tell(scope, WarningEvent(problem, slug="plugin-failed")),
                fail,
                Tell(scope, RequestResolvedEvent(request_id, how)),
            ]
        return self._close(request_id, answer, how)

    def _close(self, request_id: str, answer: Any, how: Closed) -> list[Effect]:
        if request_id not in self._open:
            return []
        _, scope = self._open.pop(request_id)
        return [Release(request_id, answer, how), Tell(scope, RequestResolvedEvent(request_id, how))]


def subject_of(request: Request[Any]) -> str:
    """Return the subject of a request, or its class if that fails."""
    try:
        return str(request.subject)
    except Exception:  # a plugin's class
        return f"a {type(request).__qualname__}"


class RequestDesk:
    """Performs the steps of :class:`Requests` for one thread.

    Args:
        thread_id: The thread's id; requests that are passed up carry it.
        tell: Sends an event to the thread's clients, with a submission's id and the id of the asking child, if any.
        answering: Returns how many listening clients can answer a request.
        parent: The desk of the parent thread, for a thread that was spawned.
    """

    def __init__(
        self,
        thread_id: str,
        *,
        tell: Callable[[str, EventMsg, str], None],
        answering: Callable[[Request[Any]], int],
        parent: RequestDesk | None = None,
    ) -> None:
        self.thread_id = thread_id
        self.answering = answering
        self._requests = Requests()
        self._tell = tell
        self._parent = parent
        self._waiters: dict[str, asyncio.Future[Any]] = {}
        self._told_how: dict[str, Callable[[Closed], None]] = {}
        self._of_children: dict[str, tuple[RequestDesk, Request[Any], str]] = {}
        self._above: dict[str, RequestDesk] = {}
        self._ended: dict[str, None] = {}
        self._closed = False

    @property
    def open(self) -> Sequence[Request[Any]]:
        """The unanswered requests, including those of children."""
        return [*self._requests.open, *(request for _, request, _ in self._of_children.values())]

    async def ask(
        self,
        request: Request[A],
        scope: str = "",
        *,
        shown: Callable[[], None] | None = None,
        how: Callable[[Closed], None] | None = None,
    ) -> A:
        """Ask, and wait for the answer.

        Args:
            scope: The turn that asks. Empty for the thread itself.
            shown: Called after clients have received the request, if it is still open.
            how: Called with the way in which the request is closed, if it has an answer.

        Raises:
            TurnEnded: The turn, or the thread, has ended.
            ThreadError: Nobody can answer, and the request has no answer for that.
            TypeError: The request's ``answer_type`` is not a class.
            asyncio.CancelledError: It ended meanwhile.
        """
        if self._closed or scope in self._ended:
            raise TurnEnded("the turn that sent the request has ended")
        if not isinstance(request.answer_type, type):
            raise TypeError(
                f"{type(request).__qualname__}.answer_type is {request.answer_type!r}, which is not a class"
            )
        loop = asyncio.get_running_loop()
        request = self._requests.with_new_id(request)
        request_id = request.request_id
        waiter: asyncio.Future[A] = loop.create_future()
        self._waiters[request_id] = waiter
        if how is not None:
            self._told_how[request_id] = how
        timer: asyncio.TimerHandle | None = None
        try:
            attended = self.answering(request) > 0
            above = None if attended else self._someone_above(request)
            if above is not None:
                self._above[request_id] = above
            self._perform(self._requests.ask(request, scope, attended=attended or above is not None))
            if above is not None and not waiter.done():
                above.take_up(self, request)
            if shown is not None and not waiter.done():
                shown()
            limit_s = request.time_limit_s()
            if limit_s is not None:
                timer = loop.call_later(limit_s, self._expire, request_id)
            return await waiter
        finally:
            if timer is not None:
                timer.cancel()
            del self._waiters[request_id]
            self._told_how.pop(request_id, None)
            self._perform(self._requests.withdraw(request_id))

    def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request of this thread or of a child; return whether it was open.

        Raises:
            ThreadError: The answer is not of the class that the request names.
        """
        if request_id in self._of_children:
            desk, _, own_id = self._of_children[request_id]
            return desk.answer(own_id, answer)
        request = next((request for request in self._requests.open if request.request_id == request_id), None)
        if request is None or self._waiters[request_id].done():  # its waiter was cancelled a moment ago
            return False
        if not isinstance(answer, request.answer_type):
            raise ThreadError(
                f"the answer to {subject_of(request)} is {type(answer).__name__}, not {request.answer_type.__name__}",
                slug="bad-request",
                hint=f"Answer with a {request.answer_type.__name__}.",
            )
        self._perform(self._requests.answer(request_id, answer))
        return True

    def leave(self, request_id: str) -> None:
        """Close a request of this thread or of a child with its unattended answer."""
        if request_id in self._of_children:
            desk, _, own_id = self._of_children[request_id]
            desk.leave(own_id)
            return
        self._perform(self._requests.leave(request_id))

    def abort(self, scope: str) -> None:
        """Close the requests of a turn and refuse new ones."""
        self._ended[scope] = None
        self._perform(self._requests.abort(scope))

    def close(self) -> None:
        """Close all requests and refuse new ones."""
        self._closed = True
        self._perform(self._requests.abort(None))

    def take_up(self, child: RequestDesk, request: Request[Any]) -> None:
        """Show a child's request to this thread's clients."""
        own_id = request.request_id
        if self._requests.is_used(own_id):
            request = request.with_id(f"{child.thread_id}:{own_id}")
        request = self._requests.with_new_id(request)
        self._of_children[request.request_id] = (child, request, own_id)
        self._tell("", request, child.thread_id)

    def let_go(self, child: RequestDesk, own_id: str, how: Closed) -> None:
        """Tell this thread's clients that a child's request is closed."""
        for request_id, (desk, _, of_child) in list(self._of_children.items()):
            if desk is child and of_child == own_id:
                del self._of_children[request_id]
                self._tell("", RequestResolvedEvent(request_id, how), child.thread_id)

    def _someone_above(self, request: Request[Any]) -> RequestDesk | None:
        """Return the nearest desk above whose clients can answer."""
        desk = self._parent
        while desk is not None and (desk._closed or not desk.answering(request)):  # noqa: SLF001  # of the same class
            desk = desk._parent  # noqa: SLF001  # of the same class
        return desk

    def _expire(self, request_id: str) -> None:
        self._perform(self._requests.expire(request_id))

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Tell(scope, msg):
                    self._tell(scope, msg, "")
                    if isinstance(msg, RequestResolvedEvent) and msg.request_id in self._above:
                        self._above.pop(msg.request_id).let_go(self, msg.request_id, msg.how)
                case Fail(request_id, text):
                    waiter = self._waiters.get(request_id)
                    if waiter is not None and not waiter.done():
                        hint = (
                            "Define `def unattended(self)` in the class of the request. It returns the answer"
                            " if no user can be asked."
                        )
                        waiter.set_exception(ThreadError(text, slug="unattended", hint=hint))
                case Release(request_id, answer, how):
                    waiter = self._waiters.get(request_id)
                    if waiter is None or waiter.done():
                        continue
                    if how is Closed.ABORTED:
                        waiter.cancel()
                    else:
                        if request_id in self._told_how:
                            self._told_how[request_id](how)
                        waiter.set_result(answer)
