"""The contexts of kernel, thread and turn for plugins.

Contexts may be used on the event loop only, except for ``KernelContext.call_from_thread``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.requests import Request
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.roles.agents import Agent, TaskRole
from codex_framework.contract.roles.calls import CallView, ToolCall
from codex_framework.contract.roles.clients import Delivery, Events, ThreadClient
from codex_framework.contract.roles.commands import RunningCommand
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo, ModelRequest, OpenModel
from codex_framework.contract.roles.outcomes import HistoryEdit
from codex_framework.contract.roles.scopes import Scope, Trace
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import ThreadMeta

__all__ = [
    "Delivery",
    "KernelContext",
    "ThreadClient",
    "ThreadContext",
    "TurnContext",
]

T = TypeVar("T")
A = TypeVar("A")


class KernelContext(Scope, Protocol):
    """The kernel, for components."""

    def warn(self, text: str, slug: str = "warning") -> None:
        """Send a warning to all clients of all threads.

        Args:
            slug: The topic: a heading of ``docs/errors.md``, or a word of the plugin's own documentation.
        """
        ...

    def op(self, tag: str, **fields: Any) -> Op:
        """Return an op by its tag, without importing the plugin that handles it.

        Raises:
            ThreadError: No plugin handles it, or the fields do not fit.
        """
        ...

    def agent(self, name: str) -> Agent[Any]:
        """Return an agent by name: one of a plugin, or a new one with the settings of ``[agents.NAME]``.

        Raises:
            ThreadError: No agent has this name.
        """
        ...

    async def resume_thread(self, thread_id: str) -> ThreadClient:
        """Resume a stored thread. Raises ThreadError."""
        ...

    def open_model(self, model: str, provider: str | None = None) -> OpenModel:
        """Return a model of any provider with a client, which the kernel shares with its threads and closes.

        Args:
            provider: The provider's id. By default, the one of the configuration.

        Raises:
            ConfigError: There is no such provider.
            CodexError: Its client cannot be created, for example because a key is missing.
        """
        ...

    def call_from_thread(self, function: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Run a coroutine function on the kernel's event loop. The only method that another operating-system thread may call.

        Returns:
            A ``concurrent.futures.Future``; ``result()`` blocks the calling thread.
        """
        ...


class ThreadContext(Scope, Protocol):
    """A thread, for plugins, for as long as the thread lives."""

    @property
    def id(self) -> str:
        """The thread's id (a UUID)."""
        ...

    @property
    def meta(self) -> ThreadMeta:
        """The thread's metadata. ``meta.extra`` contains the ``extra`` of the client."""
        ...

    @property
    def path(self) -> str | None:
        """The file of the thread. None if it is not stored."""
        ...

    @property
    def origin(self) -> Literal["new", "resumed", "forked", "spawned"]:
        """How the thread was created."""
        ...

    @property
    def parent(self) -> ThreadContext | None:
        """The thread that spawned this one."""
        ...

    @property
    def depth(self) -> int:
        """The number of its ancestors."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings of the next turn."""
        ...

    @property
    def access(self) -> FileAccess:
        """The permissions of the next turn, resolved in its folder as for :attr:`TurnFacts.access`."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged configuration of the thread's folder and overrides, as plain tables."""
        ...

    @property
    def history(self) -> Sequence[ResponseItem]:
        """The items of the conversation, oldest first. Do not change them."""
        ...

    @property
    def turn(self) -> TurnFacts | None:
        """The facts of the running turn. None while the thread is idle."""
        ...

    @property
    def model(self) -> ModelInfo | None:
        """The model of the running turn, or of the last one. None before the first turn."""
        ...

    @property
    def first_model(self) -> ModelInfo | None:
        """The model of the first turn since the thread was started or resumed. None before this turn."""
        ...

    @property
    def kernel(self) -> KernelContext:
        """The kernel."""
        ...

    def plugin_settings(self, kind: type[T]) -> T:
        """Return the plugin's settings from this thread's configuration. Raises ConfigError."""
        ...

    def component(self, kind: type[T]) -> T:
        """Return the thread component of a class. It is created now if its component says ``part_when = "use"``.

        Raises:
            ServiceError: The thread has no such part, or the part must first start or run ``before_calls``: await :meth:`part`
                instead.
        """
        ...

    async def part(self, kind: type[T]) -> T:
        """Return the thread component of a class once it has started, and has run ``before_calls`` if a turn is running.

        It is created now if its component says ``part_when = "use"``. If the caller is cancelled, the part still starts.

        Raises:
            ServiceError: The thread has no such part, or it did not start.
            PluginError: It is required and did not start. The next caller tries again.
        """
        ...

    async def submit(self, op: Op, *, id: str | None = None, trace: Trace | None = None) -> str:  # noqa: A002
        """Submit an op and return its id. In a handler the op is queued, and the call returns immediately.

        ``id`` is the id of the op's events, so that a client can follow an op that a handler forwards. By default, a new id.
        """
        ...

    def start_task(self, task: TaskRole, input: object = None, *, id: str | None = None) -> str:  # noqa: A002
        """Start a task as a turn and return the turn's id, which is ``id`` if given.

        Raises:
            ThreadError: Another turn is running, and the task can neither replace it, wait for it nor run beside it (``busy``).
        """
        ...

    async def draft(self, items: Sequence[ResponseItem] | None = None) -> ModelRequest | None:
        """Return the request that a turn would send now, for preparing or measuring it.

        It has the settings, instructions and tools of the next turn, and no turn id. Sending it does not count as a request of
        the thread. The first turn may still send something else, because its input adds context, tools and a schema of its
        output.

        Args:
            items: The items to send, normalised so that every call has an output. By default, the history.

        Returns:
            None if a turn would not send exactly this request: interceptors change requests, a limit of the thread is reached,
            or components of the thread have not started within 30 s.

        Raises:
            CodexError: A turn could not be set up.
        """
        ...

    def deliver(
        self,
        items: Sequence[ResponseItem],
        when: Delivery = "join",
        *,
        trigger: bool = False,
        event: EventMsg | None = None,
    ) -> None:
        """Add items to the conversation at the next suitable point. Only the running task can add items directly."""
        ...

    async def request(self, request: Request[A]) -> A:
        """Ask the clients of the thread. The request ends with the thread."""
        ...

    def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request. See :meth:`ThreadClient.answer`."""
        ...

    def emit(self, event: EventMsg, *, id: str = "") -> None:  # noqa: A002  # the wire's name
        """Tell the clients of the thread."""
        ...

    def events(self, *, limit: int = 10_000) -> Events:
        """Listen to the thread from now on, for work that follows it. An unused listener costs nothing.

        A plugin's listener is not a client: it cannot answer requests, and events kept for the first client stay queued. Close
        it when it is no longer needed.

        Args:
            limit: Maximum number of unread events. A listener that falls further behind first loses deltas and is then ended.
        """
        ...

    def warn(self, text: str, slug: str = "warning") -> None:
        """Tell the clients of the thread a sentence, as a warning. Without clients, it is kept for the first one.

        Args:
            slug: As for :meth:`KernelContext.warn`.
        """
        ...

    def reconfigure(self, values: Mapping[str, Any]) -> None:
        """Replace keys of the thread's configuration from the next turn on (see :meth:`ThreadComponent.reconfigured`).

        Args:
            values: By dotted key, such as ``mcp_servers``. A table replaces the earlier table; None removes the key.

        Raises:
            ConfigError: A key is unknown, has the wrong type, or cannot change in a running thread. Nothing has changed.
        """
        ...

    def append_entry(self, kind: str, data: Mapping[str, Any], *, per_turn: bool = False) -> None:
        """Write a plugin's own entry (plain JSON data) to the thread's record.

        Args:
            per_turn: Whether a rollback of the running turn takes the entry along.
        """
        ...

    def entries(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the plugin's entries of a kind, oldest first, including those from before a resume."""
        ...

    def change_meta(self, **fields: str) -> None:
        """Change fields of ``meta.extra``, for this thread and its record. The change is on disk when this returns.

        Raises:
            ThreadError: The field cannot be changed. ``CHANGING`` of ``contract.roles.stores`` lists the fields that can.
        """
        ...

    async def edit_history(self, edit: HistoryEdit) -> None:
        """Shorten the history, or roll back turns. The change is on disk when this returns.

        Raises:
            ThreadError: A turn is running and the caller is not its task (``busy``), or the edit cannot be made.
        """
        ...

    def tools_changed(self) -> None:
        """Ask the components for their tools again before the next sample."""
        ...

    def offer_tools(self, names: Iterable[str]) -> None:
        """Offer deferred tools to the model, of any plugin, from the next sample on. ``TurnFacts.deferred_tools`` lists them.

        The names are kept in the thread's record, so that a resumed thread offers these tools too. A name that no deferred tool
        has is kept and has no effect until there is such a tool.
        """
        ...

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        permissions: Permissions | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        inherit_env: bool = True,
        lossless: bool = False,
        grace_s: float = 0.05,
        tty: bool = False,
        terminal_size: tuple[int, int] = (24, 80),
    ) -> RunningCommand:
        """Start a process for the plugin, without approval. It ends with the thread.

        It leads its own session, and its stdin is a pipe that stays open, or the terminal.

        Args:
            permissions: The permissions of the process, or the name of a permission profile of the configuration. None runs it
                unconfined. Hosts that a profile does not name are refused without asking the user.
            env: Environment variables in addition to the inherited ones.
            cwd: The working folder. By default, the thread's folder.
            inherit_env: Whether it inherits the variables of the environment policy. Otherwise it gets only ``env`` and
                the variables of its sandbox.
            lossless: Whether ``chunks()`` yields the whole output from the start, to one reader. The process waits until it is
                read. Otherwise a slow reader loses the oldest output.
            grace_s: How long the process may clean up between SIGTERM and SIGKILL, in seconds.
            tty: Whether to run it on a pseudo-terminal, whose only stream is ``stdout``.
            terminal_size: The rows and columns of the terminal.

        Raises:
            ConfigError: There is no such profile.
            ToolError: It could not be started.
            ToolRefused: The sandbox cannot enforce the permissions.
        """
        ...

    async def spawn(
        self,
        agent: Agent[Any],
        prompt: str | None = None,
        *,
        fork: int | None = 0,
        extra: Mapping[str, Any] | None = None,
        resume: str | None = None,
    ) -> ThreadClient:
        """Start a child thread, which lives as long as this thread. Interrupts of this thread do not affect it.

        The child gets at most the permissions that this thread has now, and at most the tools that the agents of this thread and
        its ancestors may use.

        Args:
            prompt: Its first input. None starts no turn; use ``stream(prompt)`` of the child later.
            fork: The number of turns of this thread's history that the child starts with. By default, the whole history.
            extra: Additional metadata of the child (plain JSON data), as for ``Kernel.start_thread``.
            resume: The id of a stored child of this thread. It continues with its own history, and ``fork`` and ``extra`` are
                ignored.

        Raises:
            ThreadError: The agent asks for more than this thread has, or ``resume`` names no stored child of this thread.
        """
        ...


class TurnContext(Scope, Protocol):
    """A turn, for interceptors, reviewers, tools and tasks. After the turn's end, every use raises TurnEnded."""

    @property
    def facts(self) -> TurnFacts:
        """The facts of the turn."""
        ...

    @property
    def thread(self) -> ThreadContext:
        """The thread."""
        ...

    @property
    def history(self) -> Sequence[ResponseItem]:
        """The items of the conversation, oldest first. Do not change them."""
        ...

    @property
    def samples(self) -> int:
        """The number of requests that the turn has sent."""
        ...

    @property
    def continuations(self) -> int:
        """How often an interceptor's ``stop`` has continued the turn."""
        ...

    def emit(self, event: EventMsg) -> None:
        """Tell the clients of the thread, under the turn's id."""
        ...

    def because(self, cause: str) -> None:
        """Name the cause of an interceptor's or reviewer's next result or exception: a hook, a rule, a file.

        The record of the change, refusal or decision names it (see
        :class:`~codex_framework.contract.roles.provenance.Provenance`).
        """
        ...

    async def request(self, request: Request[A]) -> A:
        """Ask the clients of the thread. The request ends with the turn."""
        ...

    async def until_input(self) -> None:
        """Wait for user input in this turn that has not been sent to the model yet.

        For tools that wait: if the tool then returns, the model can answer immediately. Input from before the call counts too.
        Input may never come, so wait for something else as well.
        """
        ...

    def view(self, call: ToolCall) -> CallView | None:
        """Return a call in the vocabulary of hooks and interfaces, or None if its tool has no view or does not exist."""
        ...

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with other arguments, in the form of :meth:`view`.

        Raises:
            ToolError: The tool does not support that.
        """
        ...
