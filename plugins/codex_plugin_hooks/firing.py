"""Firing an event: its hooks run concurrently, and their results come back in the order of their definitions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework import FileAccess, InputText, Message, ThreadContext, TurnContext, Value, user_shell
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.toolkit.projects import project_root
from codex_plugin_hooks import matching
from codex_plugin_hooks.definitions import Definitions, Handler
from codex_plugin_hooks.events import HookCompletedEvent, HookRun, HookStartedEvent
from codex_plugin_hooks.isolation import inherited, isolate
from codex_plugin_hooks.names import EVENTS
from codex_plugin_hooks.outputs import Verdict, verdict
from codex_plugin_hooks.running import Ran, run
from codex_plugin_hooks.spilling import limited

__all__ = ["Fired", "Hooks", "agent_fields", "common", "end_fields", "root_thread"]


_SHOWN = 200
"""Longest command in a message, in characters."""


class Fired(Value, kw_only=True):
    """The result of one hook at an event.

    Attributes:
        place: The position in which it ended, from 0.
        run_id: The id of the run.
    """

    handler: Handler
    verdict: Verdict
    place: int
    run_id: str


class Hooks:
    """The hooks of some events."""

    def __init__(self, definitions: Definitions, *events: str) -> None:
        self._handlers = definitions.of(*events)
        self._definitions = definitions

    @property
    def longest_s(self) -> int:
        """The longest time limit of a hook, in seconds."""
        return max((handler.timeout_s for handler in self._handlers), default=0)

    def selected(self, event: str, names: Iterable[str] = ()) -> list[Handler]:
        """Return the hooks of an event whose matcher fits one of the names."""
        names = list(names)
        return [each for each in self._handlers if each.event.name == event and matching.matches(each.matcher, names)]

    async def fire(
        self, handlers: Sequence[Handler], turn: TurnContext, fields: Mapping[str, Any], *, suffix: str = ""
    ) -> list[Fired]:
        """Run hooks of one event. Asynchronous hooks are only started.

        Args:
            fields: Their input, as plain JSON data.
            suffix: The id of the tool call, for the ids of the runs.

        Returns:
            The results in the order of the definitions.
        """
        if not handlers:
            return []
        firing = _Firing(turn, self._definitions, fields, suffix)
        awaited = []
        for handler in handlers:
            if handler.is_async:
                turn.thread.background(firing.later(handler), name=f"{handler.event.name} hook")
            else:
                awaited.append(handler)
                firing.begin(handler)
        found = await asyncio.gather(*(firing.one(handler) for handler in awaited))
        for fired, ran in found:
            firing.end(fired, ran)
        return [fired for fired, _ in found]

    async def fire_at_end(self, handlers: Sequence[Handler], thread: ThreadContext, fields: Mapping[str, Any]) -> None:
        """Run hooks of one event when no turn can follow. Clients are told only what went wrong."""
        surroundings = _Surroundings(self._definitions, thread, user_shell(), thread.settings.cwd, thread.access)
        runs = (surroundings.run(handler, _encode_fields(fields)) for handler in handlers)
        for handler, ran in zip(handlers, await asyncio.gather(*runs), strict=True):
            for entry in verdict(handler.event, ran).entries:
                thread.warn(_line(handler, entry.kind, entry.text))


def _encode_fields(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class _Surroundings:
    """The environment in which hooks run."""

    def __init__(
        self, definitions: Definitions, thread: ThreadContext, shell: str, cwd: Path, access: FileAccess
    ) -> None:
        self._thread = thread
        self._shell = shell
        self._cwd = cwd
        self._access = access
        self._env = {"CLAUDE_PROJECT_DIR": str(project_root(cwd)), **definitions.env}
        self._variables = {**inherited(thread.config, definitions.environ), **definitions.env}

    async def run(self, handler: Handler, data: bytes) -> Ran:
        isolation = isolate(handler.scripts, self._access, self._cwd, self._variables)
        return await run(
            handler, data, self._thread, shell=self._shell, cwd=self._cwd, env=self._env, isolation=isolation
        )


class _Firing:
    """One event that is being fired."""

    def __init__(self, turn: TurnContext, definitions: Definitions, fields: Mapping[str, Any], suffix: str) -> None:
        facts = turn.facts
        self._turn = turn
        self._thread = turn.thread
        self._facts = facts
        self._data = _encode_fields(fields)
        self._surroundings = _Surroundings(definitions, turn.thread, facts.shell, facts.cwd, facts.access)
        self._suffix = f":{suffix}" if suffix else ""
        self._ended = 0

    def begin(self, handler: Handler) -> None:
        summary = _summary(handler, handler.run_id + self._suffix, int(time.time()))
        self._turn.emit(HookStartedEvent(self._facts.turn_id, summary))

    async def one(self, handler: Handler) -> tuple[Fired, Ran]:
        ran = await self._surroundings.run(handler, self._data)
        place = self._ended
        self._ended += 1
        found = verdict(handler.event, ran)
        home, limit = self._facts.codex_home, handler.context_limit
        if home is not None:
            texts = [limited(text, limit, home, self._thread.id) for text in found.context]
            reason = None if found.reason is None else limited(found.reason, limit, home, self._thread.id)
            found = found.evolve(context=tuple(texts), reason=reason)
        return Fired(handler=handler, verdict=found, place=place, run_id=handler.run_id + self._suffix), ran

    def end(self, fired: Fired, ran: Ran) -> None:
        """Tell clients of the end of a run, and the user of what went wrong."""
        summary = _summary(fired.handler, fired.run_id, ran.started_at).evolve(
            status=fired.verdict.status,
            completed_at=ran.ended_at,
            duration_ms=ran.duration_ms,
            entries=fired.verdict.entries,
        )
        self._turn.emit(HookCompletedEvent(self._facts.turn_id, summary))
        if fired.verdict.has_effect:
            self._turn.because(_handler_name(fired.handler))
        self._warn(fired)

    async def later(self, handler: Handler) -> None:
        """Run a hook for which nothing waits. It can add context, but decide nothing."""
        fired, _ = await self.one(handler)
        found = fired.verdict
        self._warn(fired)
        if found.reason is not None or found.stops or found.allows or found.updated is not None:
            self._thread.warn(_line(handler, "error", "an asynchronous hook cannot decide anything"))
        if found.context:
            self._turn.because(_handler_name(handler))
            self._thread.deliver([Message("developer", (InputText(text),)) for text in found.context], "join")

    def _warn(self, fired: Fired) -> None:
        for entry in fired.verdict.entries:
            if entry.kind in ("warning", "error"):
                self._thread.warn(_line(fired.handler, entry.kind, entry.text))


def _line(handler: Handler, kind: str, text: str) -> str:
    """Return a line for the user."""
    return text if kind == "warning" else f"{_handler_name(handler)} failed: {text}"


def _handler_name(handler: Handler) -> str:
    command = handler.command if len(handler.command) <= _SHOWN else f"{handler.command[:_SHOWN]}..."
    return f"{handler.event.name} hook {command!r} ({handler.path})"


def _summary(handler: Handler, run_id: str, started_at: int) -> HookRun:
    return HookRun(
        id=run_id,
        event_name=handler.event.key,
        scope=handler.event.scope,
        source_path=handler.path,
        source=handler.source,
        display_order=handler.order,
        status_message=handler.status_message,
        started_at=started_at,
    )


def common(event: str, turn: TurnContext, *, with_turn: bool = True) -> dict[str, Any]:
    """Return the fields that the hooks of all events read."""
    facts, thread = turn.facts, turn.thread
    fields: dict[str, Any] = {"session_id": root_thread(thread).id}
    if with_turn:
        fields["turn_id"] = facts.turn_id
    if facts.depth and EVENTS[event].matches != "agent":
        fields |= agent_fields(turn)
    return {
        **fields,
        "transcript_path": thread.path,
        "cwd": str(facts.cwd),
        "hook_event_name": event,
        "model": facts.model.slug,
        "permission_mode": "bypassPermissions" if facts.approval_policy is ApprovalPolicy.NEVER else "default",
    }


def end_fields(thread: ThreadContext) -> dict[str, Any]:
    """Return the fields that the hooks of ``SessionEnd`` read."""
    return {
        "session_id": thread.id,
        "transcript_path": thread.path,
        "cwd": str(thread.settings.cwd),
        "hook_event_name": "SessionEnd",
        "reason": "other",
    }


def agent_fields(turn: TurnContext) -> dict[str, Any]:
    """Return the fields about the child thread that a turn belongs to."""
    return {"agent_id": turn.thread.id, "agent_type": turn.facts.agent or "default"}


def root_thread(thread: ThreadContext) -> ThreadContext:
    """Return the thread that the user talks to."""
    while thread.parent is not None:
        thread = thread.parent
    return thread
