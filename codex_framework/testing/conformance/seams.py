"""The checks of components, op handlers, tasks, compactors, interceptors and agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.items import Message, OutputText, is_call, user_message
from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.protocol.wire import read, to_wire
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.compactors import Compactor, ContextStatus
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.outcomes import Compaction, Status
from codex_framework.contract.roles.tasks import Task
from codex_framework.plugins.interceptor_table import InterceptorTable
from codex_framework.plugins.offer_values import value_problems
from codex_framework.testing.conformance.findings import Findings, Unmet, run_check
from codex_framework.testing.conformance.stage import Stage
from codex_framework.testing.facts import turn_facts
from codex_framework.testing.replies import fail, say
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["check_agent", "check_compactor", "check_component", "check_interceptor", "check_op_handler", "check_task"]

_SOON_S = 0.05
_HELLO = say("Hello.")


def check_component(
    make: Callable[[], Component], *, replies: Sequence[ReplySource] = (), config: str = "", installed: bool = False
) -> None:
    """Check that a component fulfils its role: a turn, an interrupted turn, two kernels at once, a cancelled start, closing twice.

    Args:
        make: Makes the component, or its class. Each kernel gets one of its own.
        replies: What the model says in a turn, with calls of the component's tools.
        config: The text of a ``config.toml``.
        installed: Whether the kernels load installed plugins too.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    first = make()
    findings = Findings("component", first)
    for problem in value_problems("codex_components", first):
        findings.note(problem)
    if findings.members(first, Component):
        stage = Stage(findings, lambda: {"components": [make()]}, config=config, installed=installed)
        run_check(findings, lambda: _check_component(findings, stage, make, replies or (_HELLO,)))
    findings.raise_any()


async def _check_component(
    findings: Findings, stage: Stage, make: Callable[[], Component], replies: Sequence[ReplySource]
) -> None:
    async def turn(thread: ScriptedThread) -> None:
        result = await thread.turn("Go!")
        findings.require(result.status is Status.COMPLETED, f"a turn with it fails: {result.error}")

    async def starts(thread: ScriptedThread) -> None:
        kernel = thread.client.conversation.host.kernel("checked")
        component = make()
        task = asyncio.ensure_future(component.start(kernel))
        await asyncio.sleep(0)
        await findings.cancelled("a start", task)
        for what in ("aclose() after a cancelled start", "a second aclose()"):
            await findings.awaited(what, component.aclose(), within_s=component.close_timeout_s)
        fresh = make()
        await findings.awaited("aclose() without a start", fresh.aclose(), within_s=fresh.close_timeout_s)

    await stage.play("in a turn", turn, replies=replies)
    await stage.play("in an interrupted turn", _interrupted, replies=replies)
    await stage.play("in two kernels at once", turn, replies=replies, kernels=2)
    await stage.play("when its start is cancelled", starts)


async def _interrupted(thread: ScriptedThread) -> None:
    thread.start("Go!")
    await asyncio.sleep(_SOON_S)
    await thread.client.interrupt()


def check_op_handler(
    handler: OpHandler[Any],
    op: Op,
    *,
    after_turn: bool = False,
    replies: Sequence[ReplySource] = (),
    plugins: Sequence[object] = (),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that an op handler fulfils its role: idle, beside a turn, twice at once, in two kernels, and at the end of a thread.

    Args:
        handler: The handler.
        op: An op that it handles without an error.
        after_turn: Whether the op needs a thread that has had a turn.
        replies: What the model says, if the op leads to that.
        plugins: Further plugins that it needs.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("op handler", handler)
    if findings.members(handler, OpHandler):
        findings.require(
            isinstance(op, handler.op), f"its op is {handler.op.__name__}, and {type(op).__name__} was given"
        )
        findings.require(
            read(type(op), to_wire(op)) == op, f"the op {op.type!r} is not the same after a trip over the wire"
        )
        offers: Callable[[], dict[str, Any]] = lambda: {"ops": [handler]}  # noqa: E731  # as the others
        stage = Stage(findings, offers, plugins=plugins, config=config, installed=installed)
        run_check(findings, lambda: _check_op_handler(findings, stage, op, replies, after_turn=after_turn))
    findings.raise_any()


async def _check_op_handler(
    findings: Findings, stage: Stage, op: Op, replies: Sequence[ReplySource], *, after_turn: bool
) -> None:
    def told(thread: ScriptedThread, *, refusal: bool) -> None:
        for event in thread.events:
            if isinstance(event, ErrorEvent) and (not refusal or "plugin 'checked'" in event.message):
                findings.note(f"handle(): {event.message}")

    async def idle(thread: ScriptedThread) -> None:
        if after_turn:
            await thread.turn("Go!")
        await thread.client.submit(op)
        await _settled(thread)
        told(thread, refusal=False)

    async def twice(thread: ScriptedThread) -> None:
        await asyncio.gather(thread.client.submit(op), thread.client.submit(op))
        await _settled(thread)
        told(thread, refusal=True)

    async def beside(thread: ScriptedThread) -> None:
        thread.start("Go!")
        await thread.client.submit(op)
        await _settled(thread)
        told(thread, refusal=True)

    async def at_the_end(thread: ScriptedThread) -> None:
        submitting = asyncio.ensure_future(thread.client.submit(op))
        await asyncio.sleep(0)
        await thread.client.shutdown()
        await submitting

    many = [*replies, *replies, _HELLO, _HELLO]
    alone = list(replies) if not after_turn else [_HELLO, *replies]
    await stage.play("in an idle thread", idle, replies=alone)
    await stage.play("twice at once", twice, replies=many)
    await stage.play("beside a turn", beside, replies=[_HELLO, *many])
    await stage.play("when the thread ends meanwhile", at_the_end, replies=many, failing=True)
    await stage.play("in two kernels at once", idle, replies=alone, kernels=2)


async def _settled(thread: ScriptedThread) -> None:
    if thread.client.running:
        await thread.client.settled()
    await asyncio.sleep(0)


def check_task(
    make: Callable[[], Task],
    input: object = None,  # noqa: A002  # the word of the contract
    *,
    replies: Sequence[ReplySource] = (),
    plugins: Sequence[object] = (),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that a task fulfils its role: it runs, and ends if interrupted at any time, in two kernels at once.

    Args:
        make: Makes the task, or its class.
        input: What ``start_task`` is given.
        replies, plugins, config, installed: As for :func:`check_op_handler`.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    first = make()
    findings = Findings("task", first)
    if findings.members(first, Task):
        kind: Any = first.kind
        findings.require(
            isinstance(kind, str) and kind not in ("", "task", "regular"),
            f"its kind is {kind!r}: give it one of its own",
        )
        findings.require(first.when_busy in ("refuse", "replace", "wait"), f"its when_busy is {first.when_busy!r}")
        stage = Stage(findings, dict, plugins=plugins, config=config, installed=installed)
        run_check(findings, lambda: _check_task(findings, stage, make, input, list(replies)))
    findings.raise_any()


async def _check_task(
    findings: Findings,
    stage: Stage,
    make: Callable[[], Task],
    input: object,  # noqa: A002  # the word of the contract
    replies: Sequence[ReplySource],
) -> None:
    async def runs(thread: ScriptedThread) -> None:
        thread.inside("checked").start_task(make(), input)
        outcome = await thread.client.settled()
        findings.require(outcome.status is Status.COMPLETED, f"it ends as {outcome.status}: {outcome.error}")

    def interrupted(after_s: float) -> Callable[[ScriptedThread], Awaitable[None]]:
        async def act(thread: ScriptedThread) -> None:
            thread.inside("checked").start_task(make(), input)
            await asyncio.sleep(after_s)
            began = time.monotonic()
            await thread.client.interrupt()
            took = time.monotonic() - began
            findings.require(took < 2, f"it takes {took:.1f} s to end when it is interrupted")
            for text in thread.warnings:
                findings.require("abandoned" not in text, text)
            items = list(thread.history)
            open_calls = {getattr(item, "call_id", None) for item in items if is_call(item)}
            open_calls -= {getattr(item, "call_id", None) for item in items if not is_call(item)}
            findings.require(not open_calls, "an interrupt leaves calls without outputs in the history")

        return act

    await stage.play("in an idle thread", runs, replies=replies)
    for after_s in (0.0, 0.01, _SOON_S):
        await stage.play(f"interrupted after {after_s:g} s", interrupted(after_s), replies=replies, failing=True)
    await stage.play("in two kernels at once", runs, replies=replies, kernels=2)


def check_compactor(
    compactor: Compactor,
    *,
    replies: Sequence[ReplySource] = (say("A summary."),),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that a compactor fulfils its role: with unusual numbers, a compaction, an interrupt and a failing model.

    Args:
        compactor: The compactor.
        replies: What the model says in one compaction.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("compactor", compactor)
    for problem in value_problems("codex_compactors", compactor):
        findings.note(problem)
    if findings.members(compactor, Compactor):
        _check_due(findings, compactor)
        config = f'{config}\n[framework]\ncompactor = "{compactor.name}"\n' if "[framework]" not in config else config
        stage = Stage(findings, lambda: {"compactors": [compactor]}, config=config, installed=installed)
        run_check(findings, lambda: _check_compactor(findings, stage, compactor, list(replies)))
    findings.raise_any()


def _check_due(findings: Findings, compactor: Compactor) -> None:
    for tokens in (0, 1, 10**6, 10**12):
        for window in (None, 0, 1000, 10**6):
            status = ContextStatus(tokens=tokens, window=window, first=tokens == 0)
            what = f"due() with {tokens} tokens in a window of {window}"
            try:
                due = partial(compactor.due, status, turn_facts())
                reason: object = findings.called(what, due, within_s=_SOON_S)
            except Unmet:
                return
            findings.require(
                reason is None or (isinstance(reason, str) and reason), f"{what} gives {reason!r}, not a reason or None"
            )


class _Compacting(Task):
    kind = "compacting"

    async def run(self, turn: Any, input: Any) -> str | None:  # noqa: A002, ARG002  # the word of the contract
        await turn.compact("manual")
        return None


async def _check_compactor(
    findings: Findings, stage: Stage, compactor: Compactor, replies: Sequence[ReplySource]
) -> None:
    async def compacts(thread: ScriptedThread) -> None:
        await thread.turn("Say hello.")
        thread.inside("checked").start_task(_Compacting())
        outcome = await thread.client.settled()
        findings.require(outcome.status is Status.COMPLETED, f"compact() fails: {outcome.error}")
        found = {getattr(item, "call_id", None) for item in thread.history if is_call(item)}
        findings.require(not found, "a compacted history has calls without outputs")

    async def model_fails(thread: ScriptedThread) -> None:
        await thread.turn("Say hello.")
        before = list(thread.history)
        asked = len(thread.requests)
        thread.inside("checked").start_task(_Compacting())
        outcome = await thread.client.settled()
        if len(thread.requests) > asked:
            findings.require(outcome.status is Status.FAILED, "compact() succeeds although the model failed")
            findings.require(list(thread.history) == before, "a compaction that fails changes the history")
            findings.require(
                "Fix" not in str(outcome.error) and " failed: " not in str(outcome.error), str(outcome.error)
            )

    async def interrupted(thread: ScriptedThread) -> None:
        await thread.turn("Say hello.")
        thread.inside("checked").start_task(_Compacting())
        await asyncio.sleep(0)
        await thread.client.interrupt()
        for text in thread.warnings:
            findings.require("abandoned" not in text, text)

    del compactor
    await stage.play("in a conversation", compacts, replies=[_HELLO, *replies])
    await stage.play("when the model fails", model_fails, replies=[_HELLO, *[fail("no key")] * 3], failing=True)
    await stage.play("when it is interrupted", interrupted, replies=[_HELLO, *replies], failing=True)
    await stage.play("in two kernels at once", compacts, replies=[_HELLO, *replies], kernels=2)


_TEXTS = ("", "usual", "\x1b[31m\u202e\u2028`$(id)\n{}", "x" * 200_000)


def check_interceptor(interceptor: Interceptor, *, config: str = "", installed: bool = False) -> None:
    """Check that an interceptor fulfils its role: each method with typical and unusual values, in turns, in two kernels at once.

    It may refuse and stop, with the errors of the contract; anything else that it raises is a violation.

    Args:
        interceptor: The interceptor.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("interceptor", interceptor)
    for problem in value_problems("codex_interceptors", interceptor):
        findings.note(problem)
    if findings.members(interceptor, Interceptor):
        stage = Stage(findings, lambda: {"interceptors": [interceptor]}, config=config, installed=installed)
        run_check(findings, lambda: _check_interceptor(findings, stage, interceptor))
    findings.raise_any()


async def _check_interceptor(findings: Findings, stage: Stage, interceptor: Interceptor) -> None:
    table = InterceptorTable([interceptor])
    facts = turn_facts()
    if hasattr(interceptor, "applies"):
        applies: object = findings.called("applies()", lambda: interceptor.applies(facts), within_s=_SOON_S)
        findings.require(isinstance(applies, bool), f"applies() gives {applies!r}, not True or False")
    for guard in table.redact:
        for text in _TEXTS:
            result: object = findings.called("redact()", partial(guard.call, text, facts), within_s=1.0)
            findings.require(isinstance(result, str), f"redact() gives {type(result).__name__}, not a string")

    async def odd(thread: ScriptedThread) -> None:
        turn = _Turn(thread)
        for guard in table.before_tool:
            for text in _TEXTS:
                call = ToolCall("call-1", "nothing", text)
                await _given(findings, "before_tool()", guard.call(call, turn), ToolCall)
        for guard in table.after_tool:
            for text in _TEXTS:
                work = guard.call(ToolCall("call-1", "nothing", "{}"), ToolOutput(text), turn)
                await _given(findings, "after_tool()", work, ToolOutput)
        for guard in table.after_item:
            for text in _TEXTS:
                item = Message("assistant", (OutputText(text),))
                await _given(findings, "after_item()", guard.call(item, turn), Message)
        for guard in table.after_compact:
            compaction = Compaction(items=[user_message("short")], message="short")
            await _given(findings, "after_compact()", guard.call(compaction, "manual", turn), object)

    async def turns(thread: ScriptedThread) -> None:
        for text in ("Go!", _TEXTS[2], "x" * 100_000):
            await thread.turn(text)
        for event in thread.events:
            if isinstance(event, ErrorEvent):
                findings.require("failed: " not in event.message, event.message)

    replies = [say("One."), say(_TEXTS[2]), say("Three.")] + [_HELLO] * 30
    await stage.play("with odd values", odd)
    await stage.play("in turns", turns, replies=replies)
    await stage.play("in an interrupted turn", _interrupted, replies=replies)
    await stage.play("in two kernels at once", turns, replies=replies, kernels=2)


class _Turn:
    """What an interceptor gets, with the thread of a scene."""

    samples = 1
    continuations = 0

    def __init__(self, thread: ScriptedThread) -> None:
        self.facts = turn_facts()
        self.thread = thread.inside("checked")
        self.history = thread.history
        self.service = self.thread.service
        self.state = self.thread.state
        self.span = self.thread.span

    def emit(self, event: Any) -> None:
        """Tell nobody."""

    def view(self, call: ToolCall) -> None:
        """Return no view."""


async def _given(findings: Findings, what: str, work: Awaitable[Any], kind: type[Any]) -> None:
    try:
        result = await findings.awaited(what, work, within_s=5.0, allowed=(CodexError,))
    except (CodexError, Unmet):
        return
    findings.require(isinstance(result, kind), f"{what} gives {type(result).__name__}, not {kind.__name__}")


def check_agent(
    agent: Agent[Any],
    *,
    replies: Sequence[ReplySource] = (say("Hello."),),
    plugins: Sequence[object] = (),
    config: str = "",
    installed: bool = False,
) -> None:
    """Check that an agent can be used: its names mean something, a run gives an output, as a child too, and two kernels at once.

    Args:
        agent: The agent.
        replies: What the model says in one run. The last message has to fit the output type.
        plugins: Plugins whose tools the agent names.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It cannot; every violation is listed.
    """
    findings = Findings("agent", agent)
    for problem in value_problems("codex_agents", agent):
        findings.note(problem)
    if not findings.violations:
        offers: Callable[[], dict[str, Any]] = lambda: {"agents": [agent]}  # noqa: E731  # as the others
        stage = Stage(findings, offers, plugins=plugins, config=config, installed=installed)
        run_check(findings, lambda: _check_agent(findings, stage, agent, list(replies)))
    findings.raise_any()


async def _check_agent(findings: Findings, stage: Stage, agent: Agent[Any], replies: Sequence[ReplySource]) -> None:
    async def runs(thread: ScriptedThread) -> None:
        result = await thread.turn("Go!")
        findings.require(result.misfit is None, f"the output does not fit: {result.misfit}")
        findings.require(result.status is Status.COMPLETED, f"a run ends as {result.status}: {result.error}")
        for text in thread.warnings:
            findings.require(not text.startswith(("agent ", "a tool of agent ")), text)

    async def child(thread: ScriptedThread) -> None:
        spawned = await thread.inside("checked").spawn(agent)
        result = await spawned.run("Go!")
        findings.require(result.status is Status.COMPLETED, f"as a child it ends as {result.status}: {result.error}")

    await stage.play("in a thread", runs, replies=replies, agent=agent)
    await stage.play("as a child", child, replies=replies)
    await stage.play("in an interrupted turn", _interrupted, replies=replies, agent=agent)
    await stage.play("in two kernels at once", runs, replies=replies, kernels=2, agent=agent)
