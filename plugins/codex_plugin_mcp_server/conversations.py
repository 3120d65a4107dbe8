"""The threads of the server, and the turns that clients call for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from codex_framework import (
    ApprovalRequest,
    CodexError,
    Decision,
    Event,
    Kernel,
    Request,
    ReviewDecision,
    Settings,
    Thread,
    Value,
)
from codex_framework.contract.protocol.events import (
    ErrorEvent,
    RequestResolvedEvent,
    SessionConfiguredEvent,
    TurnAbortedEvent,
    TurnCompleteEvent,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_mcp_server.approvals import MALFORMED, answer_of, elicitation, needs_page
from codex_plugin_mcp_server.arguments import Reply, Start
from codex_plugin_mcp_server.link import NotAskedError
from codex_plugin_mcp_server.progress import progress_of
from codex_plugin_mcp_server.results import error_text, failure, success
from codex_plugin_mcp_server.runs import Run

__all__ = ["Asking", "Conversations", "tell"]

MOST_IDLE = 64
"""How many threads stay loaded between their turns."""

ORIGINATOR = "codex_mcp_server"


async def tell(event: Event, thread_id: str, run: Run) -> None:
    """Send an event to the client, and as progress if it is worth a line."""
    await run.notify("codex/event", {"id": event.id, "msg": to_wire(event.msg)}, thread_id)
    if (step := progress_of(event.msg)) is not None:
        await run.progress(*step)


class Asking:
    """Takes the requests of a thread to the client, each while it is open.

    Args:
        abort: Whether an answer may stop the turn. Otherwise it only denies.
    """

    def __init__(self, thread: Thread, run: Run, *, abort: bool = True) -> None:
        self._thread = thread
        self._run = run
        self._abort = abort
        self._open: dict[str, asyncio.Task[None]] = {}

    def see(self, event: Event) -> None:
        """Ask about a request, or stop asking about a closed one."""
        match event.msg:
            case Request():
                self._open[event.msg.request_id] = asyncio.ensure_future(self._ask(event.msg, event.id))
            case RequestResolvedEvent(request_id):
                task = self._open.pop(request_id, None)
                if task is not None:
                    task.cancel()
            case _:
                pass

    async def _ask(self, request: Request[Any], event_id: str) -> None:
        answer: object | None = None
        asks = self._run.can_open if needs_page(request) else self._run.can_ask
        if asks:
            params = elicitation(
                request, thread_id=self._thread.id, event_id=event_id, tool_call_id=str(self._run.first_id)
            )
            try:
                answer = answer_of(request, await self._run.ask(request.request_id, params))
                problem = "its answer cannot be read"
            except NotAskedError as error:
                problem = str(error)
            if answer is None:
                self._thread.warn(f"the client was asked about {request.subject}, but {problem}. So the answer is no.")
                answer = _no(request)
        await self._give(request, answer)

    async def _give(self, request: Request[Any], answer: object | None) -> None:
        try:
            answer = request.unattended() if answer is None else answer
            if isinstance(answer, ReviewDecision) and answer.decision is Decision.ABORT and not self._abort:
                answer = answer.evolve(decision=Decision.DENIED)
            self._thread.answer(request.request_id, answer)
        except (CodexError, NotImplementedError) as error:
            self._thread.warn(f"{request.subject} cannot be answered, so the turn is stopped: {error}")
            await self._thread.interrupt()

    def close(self) -> None:
        """Stop asking."""
        for task in self._open.values():
            task.cancel()


def _no(request: Request[Any]) -> object | None:
    """Return the answer for an answer that cannot be read, or None if the unattended one."""
    if isinstance(request, ApprovalRequest):
        return ReviewDecision(Decision.DENIED, message=MALFORMED)
    return None


class _Left(Value):
    """The state with which a closed thread continues: its own permissions, folder and configuration."""

    settings: Settings
    config: Mapping[str, Any]


class Conversations:
    """The threads of one server.

    Args:
        config: Keys of the configuration for each new thread.
    """

    def __init__(self, kernel: Kernel, config: Mapping[str, Any]) -> None:
        self._kernel = kernel
        self._config = config
        self._resuming = asyncio.Lock()
        self._turns: dict[str, Run] = {}
        self._idle: OrderedDict[str, Thread] = OrderedDict()
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._left: dict[str, _Left] = {}

    async def start(self, start: Start, run: Run) -> Mapping[str, Any]:
        """Start a thread, and run its first turn."""
        config = {**self._config, **start.config}
        try:
            thread = await self._kernel.start_thread(
                config=config, source="mcp", originator=ORIGINATOR, **start.settings
            )
        except CodexError as error:
            return failure(error_text(error))
        self._configs[thread.id] = config
        return await self._turn(thread, start.prompt, run, is_new=True)

    async def reply(self, reply: Reply, run: Run) -> Mapping[str, Any]:
        """Run the next turn of a thread, which is resumed if it is not loaded."""
        try:
            thread = await self._find(reply.thread_id)
        except CodexError as error:
            return failure(error_text(error), thread_id=reply.thread_id)
        return await self._turn(thread, reply.prompt, run, is_new=False)

    async def _find(self, thread_id: str) -> Thread:
        async with self._resuming:
            thread = self._kernel.threads.get(thread_id)
            if thread is not None:
                return thread
            left = self._left.get(thread_id)
            if left is None:
                return await self._kernel.resume_thread(thread_id, config=self._config, originator=ORIGINATOR)
            thread = await self._kernel.resume_thread(
                thread_id, left.settings, config=left.config, originator=ORIGINATOR
            )
            del self._left[thread_id]
            self._configs[thread_id] = left.config
            return thread

    async def _turn(self, thread: Thread, prompt: str, run: Run, *, is_new: bool) -> Mapping[str, Any]:
        while (before := self._turns.get(thread.id)) is not None:
            if not before.cancelled:
                return failure("a turn of this conversation is running: wait until it ends", thread_id=thread.id)
            await before.ended()  # another call may have begun a turn meanwhile
        self._turns[thread.id] = run
        self._idle.pop(thread.id, None)
        try:
            return await self._followed(thread, prompt, run, is_new=is_new)
        finally:
            del self._turns[thread.id]
            await self._close_oldest(thread)

    async def _close_oldest(self, thread: Thread) -> None:
        """Close the thread that has been idle the longest, if too many are loaded. A later reply resumes it."""
        self._idle.pop(thread.id, None)
        if thread.rollout_path is not None and thread.id in self._kernel.threads:
            self._idle[thread.id] = thread
        async with self._resuming:  # a thread that is being closed is not found
            while len(self._idle) > MOST_IDLE:
                _, oldest = self._idle.popitem(last=False)
                self._left[oldest.id] = _Left(oldest.settings, self._configs.pop(oldest.id, self._config))
                await oldest.shutdown()

    async def _followed(self, thread: Thread, prompt: str, run: Run, *, is_new: bool) -> Mapping[str, Any]:
        events = thread.events(answers=run.can_ask)
        asking = Asking(thread, run)
        problem: str | None = None
        turn_id = ""
        try:
            turn_id = thread.start(prompt)
            async for event in events:
                if is_new or not isinstance(event.msg, SessionConfiguredEvent):
                    await tell(event, thread.id, run)
                asking.see(event)
                if event.id != turn_id:
                    continue
                match event.msg:
                    case ErrorEvent(message=message):
                        problem = message
                    case TurnCompleteEvent(last_agent_message=message):
                        if problem is None:
                            return success(message or "", thread_id=thread.id)
                        return failure(problem, thread_id=thread.id)
                    case TurnAbortedEvent(reason=reason):
                        return failure(f"the turn was stopped: {reason}", thread_id=thread.id)
                    case _:
                        pass
        except CodexError as error:
            return failure(error_text(error), thread_id=thread.id)
        finally:
            asking.close()
            events.close()
            if turn_id and thread.running:
                with contextlib.suppress(CodexError):
                    await thread.interrupt()
        return failure("the thread was closed before the turn ended", thread_id=thread.id)
