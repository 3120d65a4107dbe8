"""The kernel's own context of a call, on a thread of its own, without a sandbox; and whole kernels with a model on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest

from codex_framework.config import load_config
from codex_framework.contract.protocol.events import EventMsg, TurnAbortedEvent, TurnCompleteEvent
from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tools import ToolCall, ToolOutput
from codex_framework.kernel import Kernel
from codex_framework.testing import ResponsesServer, call_context
from codex_framework.threads import thread as threads
from codex_framework.threads.turn.call_context import CallContext

T = TypeVar("T")


@attrs.define
class Thread:
    """Calls tools the way a turn does."""

    context: CallContext
    events: list[Any]

    async def call(self, tool: Any, arguments: str, *, kind: str = "function", call_id: str = "call") -> str:
        context = self.context.evolve(caller=self.context.caller.evolve(call_id=call_id))
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
        events: list[Any] = []
        model = model or ModelInfo(slug="test")
        async with call_context(
            tmp_path, config=config, model=model, emit=events.append, policies=policies, approval_policy=approval
        ) as context:
            yield Thread(context.evolve(caller=context.caller.evolve(call_id="call")), events)

    return opened


class Scene:
    """Makes kernels that talk to one server."""

    def __init__(self, workspace: Path, codex_home: Path, serve: Callable[..., ResponsesServer]) -> None:
        self.workspace = workspace
        self.codex_home = codex_home
        self._serve = serve
        self.server: ResponsesServer | None = None
        self.path = "/usr/bin:/bin"

    async def kernel(
        self, replies: Iterable[Any], *config: str, plugins: Sequence[object] = (), retries: int = 0
    ) -> Kernel:
        """Make a kernel. ``config`` are settings as on the command line."""
        self.server = self._serve(replies)
        environ = {"CODEX_HOME": str(self.codex_home), "PATH": self.path, "HOME": str(self.codex_home)}
        tries = f"request_max_retries=0, stream_max_retries={retries}"
        overrides = (
            'sandbox_mode="danger-full-access"',
            'approval_policy="never"',
            'model="gpt-5.5"',
            'model_provider="here"',
            f'model_providers.here={{name="here", base_url="{self.server.url}", {tries}}}',
            *config,
        )
        loaded = load_config(cwd=self.workspace, environ=environ, overrides=overrides)
        return await Kernel.create(loaded, environ=environ, plugins=plugins)

    def play(
        self,
        story: Callable[[Kernel], Coroutine[Any, Any, T]],
        replies: Iterable[Any],
        *config: str,
        plugins: Sequence[object] = (),
        retries: int = 0,
    ) -> T:
        """Run a story with a kernel. It is cut off after a minute."""

        async def played() -> T:
            kernel = await self.kernel(replies, *config, plugins=plugins, retries=retries)
            async with kernel, asyncio.timeout(60):
                return await story(kernel)

        return asyncio.run(played())

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests so far."""
        assert self.server is not None
        return [request.json for request in self.server.requests if request.method == "POST"]

    @property
    def rollout(self) -> Path:
        """The one session file."""
        (path,) = (self.codex_home / "sessions").rglob("rollout-*.jsonl")
        return path


@pytest.fixture
def scene(workspace: Path, codex_home: Path, responses_server: Callable[..., ResponsesServer]) -> Scene:
    return Scene(workspace, codex_home, responses_server)


@pytest.fixture
def carry_out() -> Callable[..., Any]:
    """Submit an op and return its events up to the end of the turn that it starts, or its refusal."""

    async def submitted(thread: threads.Thread, op: Op) -> list[EventMsg]:
        subscription = thread.events()
        submission = await thread.submit(op)
        events: list[EventMsg] = []
        async for event in subscription:
            if event.id != submission:
                continue
            events.append(event.msg)
            if isinstance(event.msg, (TurnCompleteEvent, TurnAbortedEvent)):
                break
            if event.msg.type == "error" and not thread.running:
                break
        subscription.close()
        return events

    return submitted
