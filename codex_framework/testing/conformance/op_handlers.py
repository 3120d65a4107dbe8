"""The check of op handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.protocol.wire import read, to_wire
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.testing.conformance.findings import Findings, run_check
from codex_framework.testing.conformance.stage import HELLO, Stage
from codex_framework.testing.scripted import ReplySource
from codex_framework.testing.threads import ScriptedThread

__all__ = ["check_op_handler"]


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
    """Check that an op handler fulfils its role: idle, beside a turn, twice together, in two kernels, when a thread ends.

    Args:
        handler: The handler.
        op: An op that it handles without an error.
        after_turn: Whether the op needs a thread that has had a turn.
        replies: The model's replies, if the op leads to requests.
        plugins: Further plugins that it needs.
        config, installed: As for :func:`check_component`.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("op handler", handler)
    if findings.check_members(handler, OpHandler):
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
    def note_errors(thread: ScriptedThread, *, refusal: bool) -> None:
        for event in thread.events:
            if isinstance(event, ErrorEvent) and (not refusal or "plugin 'checked'" in event.message):
                findings.note(f"handle(): {event.message}")

    async def idle(thread: ScriptedThread) -> None:
        if after_turn:
            await thread.turn("Go!")
        await thread.client.submit(op)
        await _settle(thread)
        note_errors(thread, refusal=False)

    async def twice(thread: ScriptedThread) -> None:
        await asyncio.gather(thread.client.submit(op), thread.client.submit(op))
        await _settle(thread)
        note_errors(thread, refusal=True)

    async def beside(thread: ScriptedThread) -> None:
        thread.start("Go!")
        await thread.client.submit(op)
        await _settle(thread)
        note_errors(thread, refusal=True)

    async def at_the_end(thread: ScriptedThread) -> None:
        submitting = asyncio.ensure_future(thread.client.submit(op))
        await asyncio.sleep(0)
        await thread.client.shutdown()
        await submitting

    many = [*replies, *replies, HELLO, HELLO]
    alone = list(replies) if not after_turn else [HELLO, *replies]
    await stage.play("in an idle thread", idle, replies=alone)
    await stage.play("twice at once", twice, replies=many)
    await stage.play("beside a turn", beside, replies=[HELLO, *many])
    await stage.play("when the thread ends meanwhile", at_the_end, replies=many, failing=True)
    await stage.play("in two kernels at once", idle, replies=alone, kernels=2)


async def _settle(thread: ScriptedThread) -> None:
    if thread.client.running:
        await thread.client.settled()
    await asyncio.sleep(0)
