"""The context of a tool call without a turn: the kernel's own context, in a folder, without a sandbox."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from codex_framework.commands.approval import ApprovalCache
from codex_framework.commands.caller import Caller
from codex_framework.commands.confinement import Confinements
from codex_framework.commands.runner import CommandRunner
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.protocol.events import ApprovalRequest
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, ReviewDecision
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.testing.facts import turn_facts
from codex_framework.threads.plugin_calls import close_all
from codex_framework.threads.plugin_view import PluginState
from codex_framework.threads.turn.call_context import CallContext
from codex_framework.threads.turn.diff import TurnDiff
from codex_framework.toolkit.truncation import truncate

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
    policies: Sequence[CommandPolicy] = (),
    approval_policy: ApprovalPolicy = ApprovalPolicy.NEVER,
) -> AsyncIterator[CallContext]:
    """Create a context to pass to ``my_tool.run``. Use it in an ``async with``.

    Commands run without a sandbox and without approval. At the end, the objects that tools keep in ``context.state`` are
    closed.

    Args:
        cwd: The turn's folder.
        config: The value of ``context.config``.
        model: The value of ``context.model``.
        access: The files that can be read and written through the context.
        emit: Called with each event (``list.append``). By default events are dropped.
        policies: Command policies that decide about commands.
        approval_policy: When an approval is asked for. Every approval is denied.

    Raises:
        AssertionError: Something in ``context.state`` could not be closed.
    """
    info = model or ModelInfo(slug="test-model")
    confinements = Confinements({}, None)
    commands = CommandRunner(
        policies=lambda: tuple(policies),
        confinements=confinements,
        environment_policy={},
        environ=os.environ,
        extra_env={},
        search_path=lambda: None,
        limit_text=lambda text: truncate(text, info.truncation),
    )
    caller = Caller(
        call_id="call-1",
        turn=turn_facts(cwd=cwd, access=access, config=config or {}, model=info, approval_policy=approval_policy),
        env={},
        emit=emit or _ignore,
        ask=_deny,
        resolve=lambda _: access,
    )
    plugin_state = PluginState()
    try:
        yield CallContext(
            thread_id="thread-1",
            model=info,
            caller=caller,
            commands=commands,
            patches=ApprovalCache(),
            plugin_state=plugin_state,
            diff=TurnDiff(cwd),
        )
    finally:
        problems = [text for _, text in await plugin_state.aclose()]
        problems += [text for _, text in await close_all(*confinements.closing())]
    if problems:
        raise AssertionError("; ".join(problems))


async def _deny(request: ApprovalRequest) -> ReviewDecision:
    del request
    return ReviewDecision(Decision.DENIED)


def _ignore(event: Any) -> None:
    del event
