"""A thread without a model, in which commands use servers by the rules of a session: approvals, sandbox and interceptors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, TypeVar

import click

from codex_framework import (
    CodexError,
    Component,
    EventMsg,
    Kernel,
    PluginContext,
    Request,
    Task,
    TaskContext,
    ThreadComponent,
    ThreadContext,
    hookimpl,
)
from codex_framework.contract.roles.setting_overrides import SettingsOverrides
from codex_plugin_mcp.connections import Connections

__all__ = ["Opened", "opened"]

T = TypeVar("T")


class Opened:
    """A thread with connections.

    Attributes:
        context: The thread, as its plugins see it.
    """

    def __init__(self, context: ThreadContext) -> None:
        self.context = context

    async def run(self, work: Callable[[TaskContext], Awaitable[T]]) -> T:
        """Run work in a turn, and return its result.

        Raises:
            CodexError: As the work raises, or the turn was interrupted.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.context.start_task(_Work(work, result))
        return await result

    async def connections(self) -> Connections:
        """Return the connections after the start of all servers. A required server that did not start is no error here."""
        found = self.context.component(Connections)
        with contextlib.suppress(CodexError):  # each connection has its own error
            await found.pool.start()
        return found


class _Work(Task):
    kind: ClassVar[str] = "mcp_command"

    def __init__(self, work: Callable[[TaskContext], Awaitable[Any]], result: asyncio.Future[Any]) -> None:
        self._work = work
        self._result = result

    async def run(self, turn: TaskContext, input: Any) -> None:  # noqa: A002, ARG002  # the role's
        """Run the work."""
        try:
            outcome = await self._work(turn)
        except asyncio.CancelledError:
            self._fail(CodexError("the call was interrupted", slug="mcp"))
            raise
        except Exception as error:  # it is the caller's
            self._fail(error)
        else:
            if not self._result.done():
                self._result.set_result(outcome)

    def _fail(self, error: Exception) -> None:
        if not self._result.done():
            self._result.set_exception(error)


class _Companion(Component):
    """Keeps the context of the thread."""

    name = "mcp_command"

    def __init__(self) -> None:
        self.thread: ThreadContext | None = None

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Keep the context."""
        self.thread = thread
        return None

    @hookimpl
    def codex_components(self) -> Iterable[Component]:
        """Offer this component."""
        return [self]


@asynccontextmanager
async def opened(
    plugin: PluginContext,
    servers: Iterable[str],
    *,
    on_event: Callable[[EventMsg], None],
    on_request: Callable[[Request[Any]], Awaitable[object]],
    approval_policy: Literal["on-request"] | None = None,
) -> AsyncIterator[Opened]:
    """Start a thread that uses some of the configured servers, and end it with the block.

    Args:
        servers: The servers to start.
        on_event: Called with every event.
        on_request: Returns the answer to a request, such as an approval.
        approval_policy: The approval policy. By default, the one of the configuration.

    Raises:
        CodexError: The thread could not be started.
    """
    companion = _Companion()
    files = click.get_current_context().find_object(tuple) or ()
    async with await Kernel.create(plugin, environ=plugin.environ, plugins=[*files, companion]) as kernel:
        overrides: SettingsOverrides = {"ephemeral": True}
        if approval_policy is not None:
            overrides["approval_policy"] = approval_policy
        thread = await kernel.start_thread(source="cli", config=_only(plugin, servers, kernel), **overrides)
        assert companion.thread is not None
        listening = asyncio.ensure_future(_listen(thread, on_event, on_request))
        try:
            yield Opened(companion.thread)
        finally:
            await thread.interrupt()  # calls in flight are cancelled before their servers end
            await thread.shutdown()
            await listening


async def _listen(
    thread: Any, on_event: Callable[[EventMsg], None], on_request: Callable[[Request[Any]], Awaitable[object]]
) -> None:
    answering: set[asyncio.Task[None]] = set()

    async def answer(request: Request[Any]) -> None:
        try:
            given = await on_request(request)
        except OSError:  # it cannot be shown
            given = request.unattended()
        thread.answer(request.request_id, given)

    async for event in thread.events():
        with contextlib.suppress(OSError):  # nobody sees it any more, but the call goes on
            on_event(event.msg)
        if isinstance(event.msg, Request):
            task = asyncio.ensure_future(answer(event.msg))
            answering.add(task)
            task.add_done_callback(answering.discard)
    for task in tuple(answering):
        task.cancel()


def _only(plugin: PluginContext, servers: Iterable[str], kernel: Kernel) -> Mapping[str, Any]:
    """Return settings that leave all other servers out, and add what only the command line says of these."""
    known = kernel.config.get("mcp_servers", {})
    wanted = {name: plugin.config["mcp_servers"][name] for name in servers}
    added = {f'mcp_servers."{name}"': table for name, table in wanted.items() if table != known.get(name)}
    return {f'mcp_servers."{name}".enabled': False for name in sorted(known.keys() - wanted.keys())} | added
