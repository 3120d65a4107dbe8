"""The kernel's own context of a call, on a thread of its own, without a sandbox."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.approval import ApprovalCache
from codex_framework.commands import CallFacts, CommandPath, Confinements
from codex_framework.context import CallContext, ThreadStash
from codex_framework.permissions import permissions_of
from codex_framework.protocol.policies import ApprovalPolicy, DangerFullAccess
from codex_framework.roles.providers import ModelInfo
from codex_framework.roles.sandboxes import FileAccess, NetworkMode
from codex_framework.roles.tools import ToolCall, ToolOutput
from codex_framework.truncation import truncate
from codex_framework.turn_diff import TurnDiff


@attrs.define
class Thread:
    """Calls tools the way a turn does."""

    context: CallContext
    events: list[Any]

    async def call(self, tool: Any, arguments: str, *, kind: str = "function", call_id: str = "call") -> str:
        facts = self.context.facts.evolve(call_id=call_id)
        context = self.context.evolve(facts=facts)
        output = await tool.run(ToolCall(call_id, tool.spec.name, arguments, kind), context)
        assert isinstance(output, ToolOutput)
        assert not output.truncate
        return str(output.content)


@pytest.fixture
def open_thread(tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(
        *,
        config: Mapping[str, Any] | None = None,
        model: ModelInfo | None = None,
        policies: tuple[Any, ...] = (),
        approval: ApprovalPolicy = ApprovalPolicy.NEVER,
    ) -> AsyncIterator[Thread]:
        model = model or ModelInfo(slug="test")
        events: list[Any] = []
        confinements = Confinements({}, None)
        commands = CommandPath(
            policies=policies,
            confinements=confinements,
            environment_policy={},
            environ=os.environ,
            extra_env={},
            search_path=lambda: None,
            limit_text=lambda text: truncate(text, model.truncation),
        )

        async def nobody(_: Any) -> Any:
            raise AssertionError("nobody is there to ask")

        facts = CallFacts(
            call_id="call",
            turn_id="turn",
            cwd=tmp_path,
            access=FileAccess(full=True, network=NetworkMode.ON),
            approval_policy=approval,
            permissions=permissions_of(DangerFullAccess()),
            realise=lambda _: FileAccess(full=True, network=NetworkMode.ON),
            config=config or {},
            env={},
            emit=events.append,
            ask=nobody,
        )
        stash = ThreadStash()
        context = CallContext(
            thread_id="thread",
            model=model,
            facts=facts,
            commands=commands,
            patches=ApprovalCache(),
            stash=stash,
            diff=TurnDiff(tmp_path),
        )
        try:
            yield Thread(context, events)
        finally:
            assert await stash.aclose() == []
            await confinements.aclose()

    return opened
