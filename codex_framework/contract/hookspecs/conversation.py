"""The hooks for the parts of a thread, its operations and its storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.launchers import Launcher
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.stores import ThreadStore

__all__ = [
    "codex_agents",
    "codex_compactors",
    "codex_components",
    "codex_launchers",
    "codex_ops",
    "codex_thread_stores",
]


@hookspec
def codex_components(plugin: PluginContext) -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer components: objects that live as long as the kernel or a thread, and provide services or changing sets of tools.

    Example:
        ```python
        from codex_framework import Component, ThreadComponent, hookimpl, tool


        class Notes(ThreadComponent):
            def __init__(self):
                self.lines = []

            def tools(self, turn):
                @tool
                async def note(text: str) -> str:
                    \"\"\"Keep a note for this conversation.\"\"\"
                    self.lines.append(text)
                    return f"{len(self.lines)} notes"

                return [note]


        class NoteBook(Component):
            name = "notebook"

            def for_thread(self, thread):
                return Notes()


        @hookimpl
        def codex_components():
            return [NoteBook()]
        ```
    """


@hookspec
def codex_ops(plugin: PluginContext) -> Iterable[OpHandler[Any]]:  # type: ignore[empty-body]
    """Offer handlers of ops, which clients submit to a thread besides the built-in ops. A handler can start a task as a turn.

    Example:
        ```python
        from codex_framework import Op, Task, ThreadContext, handles, hookimpl


        class Count(Op):
            type = "count_items"


        class Counting(Task):
            kind = "count"

            async def run(self, turn, input):
                return f"{len(turn.history)} items"


        @handles
        async def count(op: Count, thread: ThreadContext, id: str) -> None:
            thread.start_task(Counting(), id=id)


        @hookimpl
        def codex_ops():
            return [count]
        ```
    """


@hookspec
def codex_compactors(plugin: PluginContext) -> Iterable[Compactor]:  # type: ignore[empty-body]
    """Offer compactors, which shorten conversations. ``[framework] compactor`` selects one; the default is the first.

    Example:
        ```python
        from codex_framework import Compaction, Compactor, hookimpl


        class LastTen(Compactor):
            name = "last-ten"

            def due(self, status, turn):
                return "too-long" if status.window and status.tokens > status.window // 2 else None

            async def compact(self, turn, reason):
                return Compaction(items=turn.history[-10:], message="the last ten items")


        @hookimpl
        def codex_compactors():
            return [LastTen()]
        ```
    """


@hookspec
def codex_agents(plugin: PluginContext) -> Iterable[Agent[Any]]:  # type: ignore[empty-body]
    """Offer agents: named configurations of a thread.

    Example:
        ```python
        from codex_framework import Agent, hookimpl


        @hookimpl
        def codex_agents():
            return [Agent(name="librarian", instructions="Find files. Change nothing.", permissions=":read-only")]
        ```
    """


@hookspec
def codex_thread_stores(plugin: PluginContext) -> Iterable[ThreadStore]:  # type: ignore[empty-body]
    """Offer thread stores, which keep conversations. ``[framework] thread_store`` selects one; the default is ``rollout``.

    Example:
        ```python
        from codex_framework import ThreadError, ThreadStore, hookimpl


        class Forgetful(ThreadStore):
            name = "forgetful"

            def create(self, meta, codex_home):
                return self

            def reopen(self, stored, codex_home):
                return self

            def load(self, thread_id, codex_home):
                raise ThreadError(f"there is no thread {thread_id}: this store forgets")

            def latest(self, codex_home, *, cwd=None):
                return None

            path = None

            def append(self, entries):
                pass

            def flush(self):
                pass

            def close(self):
                pass


        @hookimpl
        def codex_thread_stores():
            return [Forgetful()]
        ```
    """


@hookspec
def codex_launchers(plugin: PluginContext) -> Iterable[Launcher]:  # type: ignore[empty-body]
    """Offer launchers, which decide where sessions run. Programs that start many sessions select one by name.

    Called only by such a program, not when a kernel is created.

    Example:
        ```python
        from codex_framework import hookimpl
        from codex_framework.contract.roles.launchers import Launcher, LaunchError


        class Nowhere(Launcher):
            name = "nowhere"

            async def open(self, workplace, *, max_sessions=None):
                return self

            async def start(self, job):
                raise LaunchError(f"there is no worker for {job.key}", slug="queue-full")

            async def resume(self, key):
                raise LaunchError(f"no job has the key {key}", slug="unknown-job")

            async def aclose(self):
                pass


        @hookimpl
        def codex_launchers():
            return [Nowhere()]
        ```
    """
