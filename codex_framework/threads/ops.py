"""The ops of a thread: the built-in ops, and ops that plugins handle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from codex_framework.contract.errors import CodexError, ThreadError
from codex_framework.contract.protocol.events import ErrorEvent, ThreadSettingsAppliedEvent, WarningEvent
from codex_framework.contract.protocol.ops import (
    CleanBackgroundTerminals,
    ExecApproval,
    Interrupt,
    Op,
    PatchApproval,
    ReloadUserConfig,
    RequestPermissionsResponse,
    Shutdown,
    ThreadSettings,
    ThreadSettingsOverrides,
    UserInputOp,
)
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.scopes import Trace
from codex_framework.loader.offers import Offer
from codex_framework.threads.constraints import check_settings
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.faults import advice, error_message, kind_of, source_place
from codex_framework.threads.journal import sentence
from codex_framework.threads.plugin_calls import PluginTimeout, call_with_timeout, end_task
from codex_framework.threads.settings_changes import changed_settings, settings_snapshot
from codex_framework.threads.spans import place_of, span_of
from codex_framework.threads.tasks import RegularInput, Tasks
from codex_framework.threads.user_input import read_input
from codex_framework.toolkit.answers import permissions_decision

__all__ = ["Ops"]

HANDLER_PATIENCE_S = 10.0
"""How long a plugin may take to handle an op, in seconds."""

LAST_STEPS_S = 0.05
"""How long a handler may continue when its thread shuts down, in seconds. The shutdown may be its own last step."""


class _Ended(Exception):  # noqa: N818  # what has happened, in a word
    """The thread ended while an op was handled."""


class _Handling:
    """The handling of one op. Ops submitted during it are handled after it."""

    def __init__(self) -> None:
        self.running = True


_HANDLING: ContextVar[_Handling | None] = ContextVar("codex_framework_handling_op", default=None)
"""The handling that the running code is a part of. Tasks that a handler started keep it after its end."""


class Ops:
    """Handles the ops of one thread: in order of submission, one at a time. Interrupts, shutdowns and answers never wait.

    Args:
        shutdown: Shuts the thread down.
    """

    def __init__(
        self,
        conversation: Conversation,
        tasks: Tasks,
        handlers: Mapping[str, Offer[OpHandler[Any]]],
        shutdown: Callable[[], Awaitable[None]],
    ) -> None:
        self._conversation = conversation
        self._tasks = tasks
        self._handlers = handlers
        self._shutdown = shutdown
        self._turnstile = asyncio.Lock()
        self._handler: asyncio.Task[None] | None = None
        self._closed = False
        self._later: list[asyncio.Task[None]] = []

    async def submit(self, submission: str, op: Op, trace: Trace | None = None) -> None:
        """Handle an op, and measure that. A failure becomes an error event.

        Args:
            trace: The caller's trace context.
        """
        if trace is not None and place_of(trace) is None:
            self._conversation.journal.warn(f"ignoring an invalid trace context: {trace.traceparent[:100]!r}")
        if not self._conversation.host.broadcast.measures:
            await self.handle(submission, op)
            return
        with self._dispatch(submission, str(getattr(op, "type", "unknown")), trace):
            await self.handle(submission, op)

    def start(self, turn_id: str, given: RegularInput) -> None:
        """Start a turn with user input, and measure that as the handling of an op."""
        with self._dispatch(turn_id, UserInputOp.type):
            self._tasks.start_regular(turn_id, given)

    def _dispatch(self, submission: str, op: str, trace: Trace | None = None) -> AbstractContextManager[object]:
        attributes = {"submission.id": submission, "codex.op": op}
        thread_id, broadcast = self._conversation.id, self._conversation.host.broadcast
        return span_of(broadcast, f"op.dispatch.{op}", thread_id=thread_id, attributes=attributes, trace=trace)

    async def handle(self, submission: str, op: Op) -> None:
        """Handle an op. A failure becomes an error event."""
        given: object = op
        if not isinstance(given, Op):
            self._refuse(submission, f"submit() takes an Op, not {kind_of(given)}. Pass an Op, such as UserInputOp.")
            return
        from codex_framework.toolkit.validation import type_error  # not before the first op

        problem = type_error(op)
        if problem:
            self._refuse(submission, f"the op {op.type!r} is wrong: {problem}. Set the field to a value of this class.")
            return
        if self._answer_request(submission, op):
            return
        match op:
            case Interrupt():
                await self._tasks.stop("interrupted")
            case _:
                work = self._shutdown() if isinstance(op, Shutdown) else self._handle_in_turn(submission, op)
                handling = _HANDLING.get()
                if handling is None or not handling.running:
                    await work
                    return
                task = asyncio.ensure_future(work)
                self._later.append(task)
                task.add_done_callback(self._later.remove)

    def _answer_request(self, submission: str, op: Op) -> bool:
        """Handle the op if it answers a request. Return whether it does."""
        requests = self._conversation.requests
        try:
            match op:
                case ExecApproval(id=request_id, turn_id=str(turn_id)) if not self._is_of_turn(request_id, turn_id):
                    was_open = False
                case ExecApproval(id=request_id, decision=decision) | PatchApproval(id=request_id, decision=decision):
                    was_open = requests.answer(request_id, decision)
                case RequestPermissionsResponse(id=request_id, response=response):
                    was_open = requests.answer(request_id, permissions_decision(response))
                case _:
                    return False
            if not was_open:
                self._warn_of_answer(submission, request_id, getattr(op, "turn_id", None))
        except CodexError as error:
            self._refuse(submission, sentence(error), slug=error.slug)
        return True

    def _is_of_turn(self, request_id: str, turn_id: str) -> bool:
        """Return whether an open request belongs to a turn, as its answer says."""
        found = [request for request in self._conversation.requests.open if request.request_id == request_id]
        return all(getattr(request, "turn_id", turn_id) == turn_id for request in found)

    async def _handle_in_turn(self, submission: str, op: Op) -> None:
        async with self._turnstile:
            if self._closed:
                self._refuse(submission, f"the thread was shut down before the op {op.type!r} was handled")
                return
            handling = _Handling()
            token = _HANDLING.set(handling)
            try:
                await self._handle(submission, op)
            except CodexError as error:
                self._refuse(submission, sentence(error), getattr(error, "info", "bad_request"), error.slug)
            finally:
                handling.running = False
                _HANDLING.reset(token)

    async def close(self) -> None:
        """End the running handler and refuse the ops that wait behind it."""
        self._closed = True
        if self._handler is not None:
            await asyncio.wait((self._handler,), timeout=LAST_STEPS_S)
        if self._handler is not None:
            await end_task(self._handler)

    async def _handle(self, submission: str, op: Op) -> None:
        match op:
            case UserInputOp():
                self._apply(submission, _overrides_of(op))
                await self._user_input(submission, op)
            case ThreadSettings(overrides):
                self._apply(submission, overrides)
            case ReloadUserConfig():
                from codex_framework.threads.reloading import read_configs_again  # not before the first such op

                conversation = self._conversation
                found = await read_configs_again(lambda: [conversation.next_config], conversation.host.environ)
                conversation.next_config, waiting = found(conversation.next_config)
                if waiting:
                    conversation.journal.emit(submission, WarningEvent(waiting, slug="config-waiting"))
            case CleanBackgroundTerminals():
                for _, problem in await self._conversation.plugin_state.aclose():
                    self._conversation.journal.emit(submission, WarningEvent(problem, slug="plugin-failed"))
            case _:
                await self._handle_by_plugin(submission, op)

    async def _user_input(self, submission: str, op: UserInputOp) -> None:
        event = read_input(op, self._conversation)
        if self._tasks.running:
            self._tasks.steer(event)
            return
        await self._tasks.wait_for_end()
        metadata = op.responsesapi_client_metadata
        self._tasks.start_regular(
            submission, RegularInput(event, schema=op.final_output_json_schema, client_metadata=metadata)
        )

    def _apply(self, submission: str, overrides: ThreadSettingsOverrides) -> None:
        conversation = self._conversation
        host = conversation.host
        changed = changed_settings(
            conversation.settings, overrides, host.named_permissions, host.named_provider, host.environments
        )
        if changed is not None:
            if host.registry.constraints:
                check_settings(host.registry, changed, conversation.context)
            conversation.settings = changed
            conversation.journal.emit(submission, ThreadSettingsAppliedEvent(settings_snapshot(changed)))

    async def _handle_by_plugin(self, submission: str, op: Op) -> None:
        offer = self._handler_of(op)
        handle = offer.item.handle
        what = f"the op {op.type!r}"
        stalls = self._conversation.host.stalls
        stalls.enter()
        try:
            await self._run(
                call_with_timeout(HANDLER_PATIENCE_S, handle, op, self._conversation.context(offer.plugin), submission)
            )
        except CodexError:
            raise
        except PluginTimeout:
            text = (
                f"plugin {offer.plugin!r} did not handle {what} within {HANDLER_PATIENCE_S:g} s{source_place(handle)}"
            )
            hint = "The handler was cancelled. Start a task, or use `thread.background`, for long work."
            raise ThreadError(text, slug="bad-request", hint=hint) from None
        except _Ended:
            text = f"the thread was shut down while plugin {offer.plugin!r} handled {what}"
            raise ThreadError(text, slug="shut-down") from None
        except Exception as error:  # a plugin may raise anything
            text = f"plugin {offer.plugin!r} failed to handle {what}: {error_message(error, handle)}"
            raise ThreadError(text, slug="bad-request", hint=advice(offer.plugin, error)) from error
        finally:
            stalls.leave()

    def _handler_of(self, op: Op) -> Offer[OpHandler[Any]]:
        offer = self._handlers.get(op.type)
        if offer is None:
            raise ThreadError(
                f"no plugin handles the op {op.type!r}",
                slug="unknown-op",
                hint=f"The ops of plugins are: {', '.join(sorted(self._handlers)) or 'none'}.",
            )
        if not isinstance(op, offer.item.op):
            raise ThreadError(
                f"the op {op.type!r} is {type(op).__qualname__}, but plugin {offer.plugin!r} handles another class",
                slug="unknown-op",
                hint=f"Create it with `kernel.op({op.type!r}, ...)`.",
            )
        return offer

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a handler such that the end of the thread ends it, but the cancellation of its submitter does not.

        Raises:
            _Ended: The thread has ended.
            Exception: Any exception of the handler.
        """
        handler = self._handler = asyncio.ensure_future(work)
        try:
            await asyncio.wait((handler,))
        except asyncio.CancelledError:
            await end_task(handler)
            raise
        finally:
            self._handler = None
        if handler.cancelled():
            raise _Ended
        handler.result()

    def _warn_of_answer(self, submission: str, request_id: str, turn_id: str | None) -> None:
        """Warn the sender of an answer that its request is not open, or does not belong to the turn that the answer names."""
        ids = ", ".join(request.request_id for request in self._conversation.requests.open) or "none"
        of_turn = "" if turn_id is None else f" in the turn {turn_id}"
        text = f"no request {request_id!r} is open{of_turn}: it was answered already, has ended, or never existed"
        warning = WarningEvent(f"{text}. The answer has no effect; open requests: {ids}.", slug="late-answer")
        self._conversation.journal.emit(submission, warning)

    def _refuse(
        self, submission: str, text: str, info: str | Mapping[str, Any] = "bad_request", slug: str = "bad-request"
    ) -> None:
        self._conversation.journal.emit(submission, ErrorEvent(text, info, slug))


def _overrides_of(op: UserInputOp) -> ThreadSettingsOverrides:
    """Return the settings that come with an input. Raises ThreadError if it selects environments in two places."""
    if op.environments is None:
        return op.thread_settings
    if op.thread_settings.environments is not None:
        fact = "environments and thread_settings.environments set the same thing"
        raise ThreadError(fact, slug="bad-request", hint="Pass only one of them.")
    return op.thread_settings.evolve(environments=op.environments)
