"""One conversation: its settings, history, turns, and who listens.

Clients see ``submit``, ``events``, ``run``, ``stream``, ``interrupt`` and ``shutdown``; none of them reaches into a turn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

import attrs

from codex_framework import __version__
from codex_framework.approval import ApprovalCache
from codex_framework.commands import CommandPath
from codex_framework.config.settings import Settings, fallback_warning
from codex_framework.context import ThreadStash
from codex_framework.driver import TurnDriver
from codex_framework.errors import CodexError, ThreadError
from codex_framework.headless import APPROVAL_EVENTS, denial, question
from codex_framework.history import History, normalised
from codex_framework.permissions import Permissions, additional_from_wire, permissions_of
from codex_framework.prompt_context import context_update
from codex_framework.protocol.events import (
    DELTA_EVENTS,
    ErrorEvent,
    Event,
    EventMsg,
    SessionConfiguredEvent,
    ShutdownCompleteEvent,
    ThreadSettingsAppliedEvent,
    TokenCountEvent,
    TokenUsage,
    TurnAbortedEvent,
    TurnCompleteEvent,
    TurnStartedEvent,
    WarningEvent,
)
from codex_framework.protocol.items import ResponseItem
from codex_framework.protocol.ops import (
    CleanBackgroundTerminals,
    ExecApproval,
    Interrupt,
    Op,
    PatchApproval,
    PermissionsResponse,
    RequestPermissionsResponse,
    Shutdown,
    ThreadSettings,
    ThreadSettingsOverrides,
    UserInputItem,
    UserInputOp,
)
from codex_framework.protocol.permissions import AdditionalPermissions
from codex_framework.protocol.policies import Decision, ReviewDecision
from codex_framework.protocol.wire import to_wire
from codex_framework.roles.context import ContextFacts
from codex_framework.roles.observers import Measurement, Notification
from codex_framework.roles.providers import ModelInfo
from codex_framework.roles.stores import (
    EventEntry,
    ItemEntry,
    ThreadEntry,
    ThreadMeta,
    ThreadRecorder,
    TurnContextEntry,
)
from codex_framework.subscription import Subscription
from codex_framework.truncation import truncate
from codex_framework.turn import InputArrived, Interrupted, Outcome, Status
from codex_framework.turn_scope import Resources, TurnScope
from codex_framework.user_input import arrived, as_items
from codex_framework.value import Value

__all__ = ["Thread", "TurnResult", "new_id"]


_WARMING_PATIENCE_S = 5.0
"""Longest time that closing waits for a sandbox that is still getting ready, in seconds."""


class TurnResult(Value, kw_only=True):
    """A turn that has ended.

    Attributes:
        status: ``completed``, ``failed`` or ``interrupted``.
        final_message: The model's last message, or None if it said nothing.
        error: Why it failed.
        usage: Tokens of this turn.
        events: Everything clients heard of it, deltas included.
    """

    status: Status
    final_message: str | None
    error: str | None
    usage: TokenUsage
    events: tuple[EventMsg, ...]


class Thread:
    """One conversation. Made by ``Kernel.start_thread`` and ``Kernel.resume_thread``."""

    def __init__(
        self,
        *,
        resources: Resources,
        settings: Settings,
        meta: ThreadMeta,
        recorder: ThreadRecorder | None,
        items: Sequence[ResponseItem] = (),
        past: Sequence[EventMsg] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.id = meta.id
        self.meta = meta
        self.resources = resources
        self.settings = settings
        self.base_instructions = meta.base_instructions
        self.history = History(normalised(items))
        self.total_usage = _usage_so_far(past)
        self.stash = ThreadStash()
        self.approved_patches = ApprovalCache()
        self.granted = AdditionalPermissions()
        self.commands = CommandPath(
            policies=tuple(resources.registry.command_policies),
            confinements=resources.confinements,
            environment_policy=settings.shell_environment_policy,
            keep_variables=settings.keep_variables,
            environ=resources.environ,
            extra_env={
                "CODEX_HOME": str(resources.codex_home),
                "CODEX_SESSION_ID": meta.id,
                "CODEX_THREAD_ID": meta.id,
                "CODEX_VERSION": __version__,
            },
            search_path=resources.programs.path,
            limit_text=lambda text: truncate(text, ("tokens", 10_000)),
            proxy=next(iter(resources.registry.network_proxies.values()), None),
        )
        self._recorder = recorder
        self._subscriptions: list[Subscription] = []
        self._driver: TurnDriver | None = None
        self._turn_ended: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._closed = False
        self._ending: asyncio.Task[None] | None = None
        self._unsaved = False
        self._configured = Event("", self._session_configured(past))
        self._early: list[Event] = [Event("", WarningEvent(text)) for text in warnings]
        resources.broadcast.event(self.id, self._configured)

    # What clients call

    @property
    def rollout_path(self) -> str | None:
        """Where the thread is, or will be, on disk."""
        return None if self._recorder is None else self._recorder.path

    @property
    def running(self) -> bool:
        """Whether a turn is running."""
        return self._driver is not None

    def events(self) -> Subscription:
        """Listen: ``session_configured`` first, then everything from now on."""
        subscription = Subscription(self._subscriptions.remove)
        subscription.put(self._configured)
        for event in self._early:
            subscription.put(event)
        self._early.clear()
        self._subscriptions.append(subscription)
        if self._closed:
            subscription.end()
        return subscription

    async def submit(self, op: Op, *, id: str | None = None) -> str:  # noqa: A002  # the wire's name
        """Hand in an op; returns its id, which every event that it causes carries.

        What the op leads to comes as events; a refused op as an ``error`` event.

        Raises:
            ThreadError: The thread was shut down.
        """
        self._check_open()
        submission = id or new_id()
        try:
            await self._handle(submission, op)
        except CodexError as error:
            self.emit(submission, ErrorEvent(_sentence(error), "bad_request"))
        return submission

    async def stream(
        self, prompt: str | Sequence[UserInputItem], *, output_schema: Mapping[str, Any] | None = None
    ) -> AsyncIterator[EventMsg]:
        """Start a turn and follow it: events until ``task_complete`` or ``turn_aborted``.

        Raises:
            ThreadError: The input cannot be used, or a turn is running.
        """
        self._check_open()
        if self._driver is not None:
            raise ThreadError(
                "a turn is running already",
                slug="busy",
                hint="Steer it with submit(UserInputOp(...)), or wait for its end.",
            )
        subscription = self.events()
        try:
            turn_id = new_id()
            self._start_turn(turn_id, arrived(as_items(prompt), self.settings.cwd), output_schema)
            async for event in subscription:
                if event.msg is self._configured.msg:
                    continue
                yield event.msg
                if event.id == turn_id and isinstance(event.msg, (TurnCompleteEvent, TurnAbortedEvent)):
                    return
        finally:
            subscription.close()

    async def run(
        self, prompt: str | Sequence[UserInputItem], *, output_schema: Mapping[str, Any] | None = None
    ) -> TurnResult:
        """Run one turn to its end. Raises as :meth:`stream`; a failed turn is a result, not an exception.

        Where nobody else listens to the thread, nobody can answer a question: then the answer is no, with a warning.
        """
        events: list[EventMsg] = []
        before = self.total_usage
        error: str | None = None
        async for msg in self.stream(prompt, output_schema=output_schema):
            events.append(msg)
            if isinstance(msg, ErrorEvent):
                error = msg.message
            elif isinstance(msg, APPROVAL_EVENTS) and len(self._subscriptions) == 1:
                self.emit("", WarningEvent(f"denied, since nobody listens who could answer: {question(msg)}"))
                await self.submit(denial(msg))
        last = events[-1]
        final = last.last_agent_message if isinstance(last, TurnCompleteEvent) else None
        status = (
            Status.INTERRUPTED if isinstance(last, TurnAbortedEvent) else Status.FAILED if error else Status.COMPLETED
        )
        return TurnResult(
            status=status,
            final_message=final,
            error=error,
            usage=_difference(self.total_usage, before),
            events=tuple(events),
        )

    async def interrupt(self) -> None:
        """End the running turn and wait for its end. Background terminals survive."""
        await self._stop_turn("interrupted")

    async def shutdown(self) -> None:
        """Stop everything, save everything. Safe to call twice, also at once: all callers wait for the one end."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._shut_down())
        await asyncio.shield(self._ending)

    def _check_open(self) -> None:
        if self._ending is not None:
            raise ThreadError(f"thread {self.id} is shut down", slug="shut-down", hint="Resume it in a new thread.")

    async def _shut_down(self) -> None:
        await self._stop_turn("interrupted")
        while self._driver is not None:  # input that came in the moment of the end has begun another turn
            await self._stop_turn("interrupted")
        self._closed = True
        if self._warming is not None:
            await asyncio.wait((self._warming,), timeout=_WARMING_PATIENCE_S)
            self._warming.cancel()
        for problem in await self.stash.aclose():
            self.emit("", WarningEvent(problem))
        if self._recorder is not None:
            try:
                self._recorder.close()
            except Exception as error:  # a store that is broken must not keep the rest from being closed
                self.emit("", WarningEvent(f"Failed to save the conversation transcript: {_sentence(error)}"))
        self.emit("", ShutdownCompleteEvent())
        for subscription in list(self._subscriptions):
            subscription.end()
        self.resources.forget(self.id)

    # Ops

    async def _handle(self, submission: str, op: Op) -> None:
        match op:
            case UserInputOp():
                self._apply(submission, op.thread_settings)
                await self._user_input(submission, op)
            case ThreadSettings(overrides):
                self._apply(submission, overrides)
            case Interrupt():
                await self._stop_turn("interrupted")
            case ExecApproval(id=approval, decision=decision) | PatchApproval(id=approval, decision=decision):
                if self._driver is not None:
                    self._driver.answer(approval, decision)
            case RequestPermissionsResponse(id=approval, response=response):
                if self._driver is not None:
                    self._driver.answer(approval, _permissions_decision(response))
            case CleanBackgroundTerminals():
                for problem in await self.stash.aclose():
                    self.emit(submission, WarningEvent(problem))
            case Shutdown():
                await self.shutdown()
            case _:
                assert_never(op)

    async def _user_input(self, submission: str, op: UserInputOp) -> None:
        event = arrived(op.items, self.settings.cwd)
        if self._driver is not None:
            self._driver.feed(event)
            return
        if self._turn_ended is not None:
            await self._turn_ended
        self._start_turn(submission, event, op.final_output_json_schema)

    def _apply(self, submission: str, overrides: ThreadSettingsOverrides) -> None:
        changes = {name: value for name, value in attrs.asdict(overrides, recurse=False).items() if value is not None}
        if not changes:
            return
        renamed = {"effort": "reasoning_effort", "summary": "reasoning_summary"}
        changes = {renamed.get(name, name): value for name, value in changes.items()}
        if "cwd" in changes:
            changes["cwd"] = Path(changes["cwd"])
        changes = self._with_permissions(changes)
        self.settings = self.settings.evolve(**changes)
        self.emit(submission, ThreadSettingsAppliedEvent(self._settings_snapshot()))

    def _with_permissions(self, changes: dict[str, Any]) -> dict[str, Any]:
        """The changes with one value for what may be done. Limits that hold whatever the profile says are kept.

        Raises:
            CodexError: There are two of them, or no profile has that name.
        """
        ways = [name for name in ("sandbox_policy", "permission_profile", "permissions") if name in changes]
        if len(ways) > 1:
            text = f"{' and '.join(ways)} say the same thing"
            raise ThreadError(text, slug="bad-request", hint="Give one of them.")
        now = self.settings.permissions
        wanted = now
        if "sandbox_policy" in changes:
            policy = changes.pop("sandbox_policy")
            # A client that sends back what it was told does not mean to widen a profile.
            wanted = now if policy == now.sandbox_policy else permissions_of(policy)
        elif "permission_profile" in changes:
            wanted = Permissions(profile=changes.pop("permission_profile"))
        elif "permissions" in changes:
            wanted = self.resources.named_permissions(changes.pop("permissions"))
        roots = changes.pop("workspace_roots", None if wanted is not now else now.workspace_roots)
        if roots is None:
            roots = (*wanted.workspace_roots,)
        if wanted is not now or roots != now.workspace_roots:
            changes["permissions"] = wanted.evolve(workspace_roots=tuple(roots), options=now.options)
        return changes

    # Turns

    def _start_turn(self, turn_id: str, first: InputArrived, schema: Mapping[str, Any] | None) -> None:
        settings = self.settings
        try:
            scope = TurnScope(self, turn_id, settings, schema)
        except Exception as error:  # a plugin's provider or tool may raise anything while the turn is put together
            self._refuse_turn(turn_id, first, error)
            return
        driver = TurnDriver(scope)
        self._driver = driver
        began = time.time()
        self._turn_ended = asyncio.ensure_future(self._end_turn(driver, scope, began, first))
        try:
            self.emit(turn_id, TurnStartedEvent(turn_id, int(began), scope.model.context_window))
            self._warn_of_unknown_model(turn_id, scope.model)
            self._record_context(scope)
            driver.feed(first)
        except Exception as error:  # a defect of ours or of a store; the thread must not stay busy for ever
            driver.break_down(error)
        if scope.tools:  # without any, no command will run
            # The first request is on its way by the time this task runs; the sandbox gets ready while the model answers.
            self._warming = asyncio.ensure_future(self.commands.warm(scope.access, settings.cwd, self.resources.config))

    def _refuse_turn(self, turn_id: str, first: InputArrived, error: Exception) -> None:
        """A turn that cannot even begin: its input is kept, and it fails in the way turns do."""
        self.emit(turn_id, TurnStartedEvent(turn_id, int(time.time())))
        self.record(first.items)
        if first.event is not None:
            self.emit(turn_id, first.event)
        self.flush(turn_id)
        self.emit(turn_id, ErrorEvent(_sentence(error), "bad_request"))
        self.emit(turn_id, TurnCompleteEvent(turn_id, None, int(time.time()), 0))

    def _record_context(self, scope: TurnScope) -> None:
        settings = scope.settings
        facts = ContextFacts(
            thread_id=self.id,
            cwd=settings.cwd,
            codex_home=self.resources.codex_home,
            shell=self.resources.shell,
            model=scope.model,
            approval_policy=settings.approval_policy,
            permissions=settings.permissions,
            access=scope.access,
            config=self.resources.config,
            first=len(self.history) == 0,
        )
        update = context_update(self.resources.registry.context_sources, facts, self.history)
        for warning in update.warnings:
            scope.emit(WarningEvent(warning))
        self.record(update.messages)
        self._keep([TurnContextEntry({"turn_id": scope.turn_id, **self._settings_snapshot()})])

    async def _end_turn(self, driver: TurnDriver, scope: TurnScope, began: float, first: InputArrived) -> None:
        outcome = await driver.done
        now = time.time()
        duration = int((now - began) * 1000)
        leftover = driver.leftover()
        self._driver = None
        if outcome.status is Status.INTERRUPTED:
            reason = outcome.reason or "interrupted"
            scope.emit(TurnAbortedEvent(scope.turn_id, reason, int(now), duration))
        else:
            first_token = driver.time_to_first_token_ms
            scope.emit(TurnCompleteEvent(scope.turn_id, outcome.last_agent_message, int(now), duration, first_token))
        self.flush(scope.turn_id)
        self._tell_turn_ended(scope, first, outcome, duration)
        for late in leftover:
            self._start_late(late)

    def _start_late(self, late: InputArrived) -> None:
        """Input that arrived while its turn was ending begins another one, or joins the one that has begun."""
        if self._driver is not None:
            self._driver.feed(late)
        else:
            self._start_turn(new_id(), late, None)

    def _tell_turn_ended(self, scope: TurnScope, first: InputArrived, outcome: Outcome, duration_ms: int) -> None:
        scope.measure(
            Measurement(
                kind="span",
                name="codex.turn.e2e_duration_ms",
                time_s=time.time() - duration_ms / 1000,
                duration_s=duration_ms / 1000,
                attributes={"model": scope.model.slug, "status": outcome.status.value},
            )
        )
        if (
            outcome.status is Status.COMPLETED and self.meta.source != "subagent"
        ):  # people wait for threads of their own
            self.resources.broadcast.notification(
                Notification(
                    type="agent-turn-complete",
                    thread_id=self.id,
                    turn_id=scope.turn_id,
                    cwd=str(scope.settings.cwd),
                    input_messages=(first.event.message,) if first.event else (),
                    last_assistant_message=outcome.last_agent_message,
                )
            )

    async def _stop_turn(self, reason: str) -> None:
        if self._driver is not None:
            self._driver.feed(Interrupted(reason))
        if self._turn_ended is not None:
            await asyncio.shield(self._turn_ended)

    def _warn_of_unknown_model(self, turn_id: str, model: ModelInfo) -> None:
        if not model.known:
            self.emit(
                turn_id,
                WarningEvent(fallback_warning(model.slug)),
            )

    # Telling and recording

    def emit(self, submission: str, msg: EventMsg) -> None:
        """Tell clients and observers; record what the store keeps."""
        event = Event(submission, msg)
        for subscription in self._subscriptions:
            subscription.put(event)
        if isinstance(msg, DELTA_EVENTS):
            return
        self.resources.broadcast.event(self.id, event)
        self._keep((EventEntry(msg),))

    def warn(self, text: str) -> None:
        """Tell clients something that belongs to no turn; kept for the first listener if there is none yet."""
        if self._subscriptions:
            self.emit("", WarningEvent(text))
        else:
            self._early.append(Event("", WarningEvent(text)))

    def record(self, items: Sequence[ResponseItem]) -> None:
        """Add items to history and to the record."""
        self._keep([ItemEntry(item, self.history.append(item)) for item in items])

    def _keep(self, entries: Sequence[ThreadEntry]) -> None:
        """Hand entries to the store. One that breaks its promise not to raise is given up: the conversation goes on without."""
        if self._recorder is None:
            return
        try:
            self._recorder.append(entries)
        except Exception as error:  # whatever a broken store raises
            self._recorder = None
            self.warn(f"the conversation is not kept any more: its store failed: {type(error).__name__}: {error}")

    def flush(self, submission: str) -> None:
        """Bring the record to disk. What cannot be written is kept and tried again; the person is told once."""
        if self._recorder is None:
            return
        try:
            self._recorder.flush()
        except Exception as error:  # ThreadError by contract; anything else is no reason to lose the turn either
            if not self._unsaved:
                self._unsaved = True
                text = "Failed to save the conversation transcript; it is kept in memory and tried again."
                self.emit(submission, WarningEvent(f"{text} Error: {_sentence(error)}"))
        else:
            self._unsaved = False

    def _session_configured(self, past: Sequence[EventMsg]) -> SessionConfiguredEvent:
        settings = self.settings
        return SessionConfiguredEvent(
            session_id=self.id,
            thread_id=self.id,
            model=settings.model,
            model_provider_id=settings.provider.id,
            approval_policy=settings.approval_policy,
            sandbox_policy=settings.sandbox_policy,
            cwd=str(settings.cwd),
            permission_profile=settings.permissions.profile,
            active_permission_profile=settings.permissions.active,
            reasoning_effort=settings.reasoning_effort,
            forked_from_id=self.meta.forked_from_id,
            rollout_path=self.rollout_path,
            initial_messages=tuple(past) or None,
        )

    def _settings_snapshot(self) -> dict[str, Any]:
        """The settings of a turn (wire: ``turn_context`` and ``thread_settings``)."""
        settings = self.settings
        snapshot = {
            "cwd": str(settings.cwd),
            "approval_policy": to_wire(settings.approval_policy),
            "sandbox_policy": to_wire(settings.sandbox_policy),
            "permission_profile": to_wire(settings.permissions.profile),
            "active_permission_profile": settings.permissions.active,
            "model": settings.model,
            "effort": settings.reasoning_effort,
            "summary": settings.reasoning_summary or "auto",
        }
        return {key: value for key, value in snapshot.items() if value is not None}


def _permissions_decision(response: PermissionsResponse) -> ReviewDecision:
    """Raises ThreadError."""
    try:
        granted = additional_from_wire(response.permissions)
    except ValueError as error:
        raise ThreadError(f"the granted permissions cannot be read: {error}", slug="bad-request") from error
    if response.scope not in ("turn", "session"):
        raise ThreadError(f"the scope is {response.scope!r}", slug="bad-request", hint="Answer with turn or session.")
    if not granted:
        return ReviewDecision(Decision.DENIED)
    kind = Decision.APPROVED_FOR_SESSION if response.scope == "session" else Decision.APPROVED
    return ReviewDecision(kind, granted=granted)


def _usage_so_far(past: Sequence[EventMsg]) -> TokenUsage:
    for msg in reversed(past):
        if isinstance(msg, TokenCountEvent) and msg.info is not None:
            return msg.info.total_token_usage
    return TokenUsage()


def _difference(now: TokenUsage, before: TokenUsage) -> TokenUsage:
    return TokenUsage(*(a - b for a, b in zip(attrs.astuple(now), attrs.astuple(before), strict=True)))


def _sentence(error: Exception) -> str:
    if not isinstance(error, CodexError):
        return f"{type(error).__name__}: {error}"
    return f"{error}. {error.hint}" if error.hint else str(error)


def new_id() -> str:
    """A new id: a time-ordered UUID (version 7, RFC 9562), that is 48 bits of unix milliseconds, then random bits."""
    value = (int(time.time() * 1000) & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
