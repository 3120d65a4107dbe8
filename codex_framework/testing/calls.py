"""What a tool gets for one call, without a turn around it: the kernel's own context, in a folder, without a sandbox."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from codex_framework.approval import ApprovalCache
from codex_framework.commands import CallFacts, CommandPath, Confinements
from codex_framework.context import CallContext, ThreadStash
from codex_framework.permissions import permissions_of
from codex_framework.protocol.events import ApprovalEvent
from codex_framework.protocol.policies import ApprovalPolicy, DangerFullAccess, Decision, ReviewDecision
from codex_framework.roles.providers import ModelInfo
from codex_framework.roles.sandboxes import FileAccess, NetworkMode
from codex_framework.truncation import truncate
from codex_framework.turn_diff import TurnDiff

__all__ = ["call_context"]

_ANYTHING = FileAccess(full=True, network=NetworkMode.ON)


@asynccontextmanager
async def call_context(
    cwd: Path,
    *,
    config: Mapping[str, Any] | None = None,
    model: ModelInfo | None = None,
    access: FileAccess = _ANYTHING,
    emit: Callable[[Any], None] | None = None,
) -> AsyncIterator[CallContext]:
    """Make a context to pass to ``my_tool.run``; use it in an ``async with``.

    Commands run without a sandbox, nobody is asked. At the end the objects that tools keep in ``context.state`` are closed.

    Args:
        cwd: The turn's folder.
        config: What ``context.config`` is.
        model: What ``context.model`` is.
        access: Which files the context itself lets be read and written.
        emit: Takes the events (``list.append``); by default they are dropped.

    Raises:
        AssertionError: Something in ``context.state`` could not be closed.
    """
    info = model or ModelInfo(slug="test-model")
    confinements = Confinements({}, None)
    commands = CommandPath(
        policies=(),
        confinements=confinements,
        environment_policy={},
        environ=os.environ,
        extra_env={},
        search_path=lambda: None,
        limit_text=lambda text: truncate(text, info.truncation),
    )
    facts = CallFacts(
        call_id="call-1",
        turn_id="turn-1",
        cwd=cwd,
        access=access,
        approval_policy=ApprovalPolicy.NEVER,
        permissions=permissions_of(DangerFullAccess()),
        config=config or {},
        env={},
        emit=emit or _dropped,
        ask=_nobody,
        realise=lambda _: access,
    )
    stash = ThreadStash()
    try:
        yield CallContext(
            thread_id="thread-1",
            model=info,
            facts=facts,
            commands=commands,
            patches=ApprovalCache(),
            stash=stash,
            diff=TurnDiff(cwd),
        )
    finally:
        problems = await stash.aclose()
        await confinements.aclose()
    if problems:
        raise AssertionError("; ".join(problems))


async def _nobody(request: ApprovalEvent) -> ReviewDecision:
    del request
    return ReviewDecision(Decision.DENIED)


def _dropped(event: Any) -> None:
    del event
