"""The implementation of ``ThreadContext``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from codex_framework.commands.access import file_access
from codex_framework.config.plugin_tables import plugin_settings
from codex_framework.contract.errors import CommandFailed, SandboxError, ThreadError, ToolError, ToolRefused
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.events import ContextCompactedEvent, EventMsg, Request, ThreadRolledBackEvent
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.roles.agents import Agent, TaskRole
from codex_framework.contract.roles.commands import RunningCommand
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo, ModelRequest
from codex_framework.contract.roles.outcomes import Compaction, HistoryEdit, RolledBack
from codex_framework.contract.roles.provenance import Actor
from codex_framework.contract.roles.scopes import Span, Trace
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import CHANGING, PluginEntry, ThreadMeta
from codex_framework.contract.roles.threads import Delivery, KernelContext, ThreadClient, ThreadContext
from codex_framework.threads.agents import check_agent
from codex_framework.threads.constraints import narrow_permissions
from codex_framework.threads.conversation import Conversation, Origin, Start
from codex_framework.threads.delivery import make_delivery
from codex_framework.threads.faults import WrongValue, checked_items, refuse
from codex_framework.threads.ids import new_id
from codex_framework.threads.ops import Ops
from codex_framework.threads.plugin_calls import causes
from codex_framework.threads.plugin_view import PluginView, view_of
from codex_framework.threads.spans import span_of
from codex_framework.threads.subscription import Subscription
from codex_framework.threads.tasks import Tasks
from codex_framework.threads.turn.model_requests import draft_request
from codex_framework.threads.turn.scope import TurnScope

__all__ = ["PluginThread"]

T = TypeVar("T")
A = TypeVar("A")


class PluginThread(PluginView):
    """A thread for one plugin. The contract describes the members."""

    id: str = view_of("_conversation.id")
    meta: ThreadMeta = view_of("_conversation.meta")
    path: str | None = view_of("_conversation.journal.path")
    origin: Origin = view_of("_conversation.origin")
    depth: int = view_of("_conversation.depth")
    settings: Settings = view_of("_conversation.settings")
    config: Mapping[str, Any] = view_of("_conversation.config")
    history: Sequence[ResponseItem] = view_of("_conversation.journal.history.items")
    turn: TurnFacts | None = view_of("_conversation.turn")
    _services = view_of("_conversation.services")
    _state = view_of("_conversation.plugin_state")
    _background = view_of("_conversation.background")

    def __init__(self, conversation: Conversation, tasks: Tasks, ops: Ops, plugin: str) -> None:
        super().__init__(plugin)
        self._conversation = conversation
        self._tasks = tasks
        self._ops = ops

    @property
    def parent(self) -> ThreadContext | None:
        """The thread that spawned this one."""
        parent = self._conversation.parent
        return None if parent is None else parent.context(self._plugin)

    @property
    def access(self) -> FileAccess:
        """The permissions of the next turn, resolved."""
        conversation = self._conversation
        host, settings = conversation.host, conversation.settings

        def resolve(permissions: Permissions) -> FileAccess:
            return file_access(permissions, settings.cwd, host.environ, host.deciding)

        permissions = settings.permissions
        if host.registry.constraints:
            permissions = narrow_permissions(conversation, permissions, resolve)
        return resolve(permissions)

    @property
    def model(self) -> ModelInfo | None:
        """The model of the running turn, or of the last one."""
        turn = self._conversation.turn
        return self._conversation.previous_model if turn is None else turn.model

    @property
    def first_model(self) -> ModelInfo | None:
        """The model of the first turn since the thread was started or resumed."""
        turn = self._conversation.turn
        return self._conversation.first_model or (None if turn is None else turn.model)

    @property
    def kernel(self) -> KernelContext:
        """The kernel."""
        return self._conversation.host.kernel(self._plugin)

    def plugin_settings(self, kind: type[T]) -> T:
        """Return the plugin's settings from this thread's configuration."""
        return plugin_settings(self._conversation.host.config, self._plugin, kind)

    def reconfigure(self, values: Mapping[str, Any]) -> None:
        """Replace keys of the thread's configuration from the next turn on."""
        from codex_framework.config.reloading import replace_values

        self._conversation.next_config = replace_values(self._conversation.next_config, values)

    def component(self, kind: type[T]) -> T:
        """Return the thread component of a class."""
        return self._conversation.parts.component(kind)

    async def part(self, kind: type[T]) -> T:
        """Return the thread component of a class once it is ready."""
        return await self._conversation.parts.part(kind)

    async def submit(self, op: Op, *, id: str | None = None, trace: Trace | None = None) -> str:  # noqa: A002
        """Submit an op."""
        submission = id or new_id()
        await self._ops.submit(submission, op, trace)
        return submission

    def start_task(self, task: TaskRole, input: object = None, *, id: str | None = None) -> str:  # noqa: A002
        """Start a task as a turn."""
        if not isinstance(task, TaskRole):
            refuse("an instance of a subclass of Task", task, "start_task")
        return self._tasks.start_task(task, self._plugin, input, id or new_id())

    async def draft(self, items: Sequence[ResponseItem] | None = None) -> ModelRequest | None:
        """Return the request that a turn would send now."""
        if items is not None:
            items = checked_items(items, "what is drafted")
        conversation = self._conversation
        if not await conversation.parts.wait_for_starts() or conversation.budget.reached_limit() is not None:
            return None
        scope = TurnScope(conversation, "")
        return None if scope.guards.request else draft_request(scope, items, tools=True)

    def deliver(
        self,
        items: Sequence[ResponseItem],
        when: Delivery = "join",
        *,
        trigger: bool = False,
        event: EventMsg | None = None,
    ) -> None:
        """Add items to the conversation at the next suitable point."""
        delivery = make_delivery(items, when, event)
        by = Actor(role="component", plugin=self._plugin, causes=causes())
        turn = self._conversation.turn
        self._conversation.trail.record_addition("delivery", by, delivery.items, None if turn is None else turn.turn_id)
        self._tasks.deliver(delivery, trigger=trigger)

    async def request(self, request: Request[A]) -> A:
        """Ask the clients of the thread."""
        if not isinstance(request, Request):
            refuse("a Request", request, "request")
        return await self._conversation.requests.ask(request)

    def answer(self, request_id: str, answer: object) -> bool:
        """Answer a request."""
        return self._conversation.requests.answer(request_id, answer)

    def emit(self, event: EventMsg, *, id: str = "") -> None:  # noqa: A002  # the wire's name
        """Send an event to the clients of the thread."""
        if not isinstance(event, EventMsg):
            refuse("an EventMsg", event, "emit")
        self._conversation.journal.emit(id, event)

    def events(self, *, limit: int = 10_000) -> Subscription:
        """Listen to the thread."""
        return self._conversation.journal.follow(limit=limit)

    def warn(self, text: str, slug: str = "warning") -> None:
        """Send a warning to the clients of the thread."""
        self._conversation.journal.warn(text, slug)

    def append_entry(self, kind: str, data: Mapping[str, Any], *, per_turn: bool = False) -> None:
        """Write a plugin's own entry to the record."""
        check_json(kind, data)
        turn = self._conversation.turn if per_turn else None
        entry = PluginEntry(plugin=self._plugin, kind=kind, data=data, turn_id=None if turn is None else turn.turn_id)
        self._conversation.journal.append_entry(entry)

    def entries(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the plugin's entries of a kind."""
        return self._conversation.journal.entries(self._plugin, kind)

    def change_meta(self, **fields: str) -> None:
        """Change fields of the thread's metadata."""
        fixed = sorted(fields.keys() - CHANGING)
        if fixed:
            raise ThreadError(
                f"{fixed[0]!r} of a thread's metadata cannot change",
                slug="bad-request",
                hint=f"Only {', '.join(sorted(CHANGING))} can.",
            )
        conversation = self._conversation
        conversation.meta = conversation.meta.evolve(extra={**conversation.meta.extra, **fields})
        conversation.journal.change_meta(fields)
        conversation.journal.flush("")

    async def edit_history(self, edit: HistoryEdit) -> None:
        """Shorten the history, or roll back turns."""
        if self._tasks.running:
            raise ThreadError(
                "the history cannot be edited while a turn is running",
                slug="busy",
                hint="Wait until it ends. In the running task, use `compact`.",
            )
        match edit:
            case Compaction():
                checked_items(edit.items, "the compaction's `items`")
                self._compact(edit)
            case RolledBack(turns):
                self._roll_back(turns)
            case _:
                refuse("a Compaction or RolledBack", edit, "edit_history")

    def _compact(self, compaction: Compaction) -> None:
        journal = self._conversation.journal
        journal.compact(compaction.items, compaction.message)
        journal.emit("", ContextCompactedEvent())
        journal.flush("")

    def _roll_back(self, turns: int) -> None:
        conversation = self._conversation
        if turns < 1:
            raise ThreadError(
                "num_turns must be >= 1", slug="bad-request", hint="Pass the number of turns to roll back."
            )
        if not conversation.journal.is_stored:
            raise ThreadError(
                "thread rollback requires persisted thread history", slug="no-store", hint="Do not use --ephemeral."
            )
        journal = conversation.journal
        journal.emit("", ThreadRolledBackEvent(turns))
        journal.flush("")
        stored = conversation.host.stored(conversation.id)
        journal.reload(stored.history, stored.entries)

    def tools_changed(self) -> None:
        """Ask the components for their tools again before the next sample."""
        self._conversation.host.tool_tables.forget(self._plugin)
        self._conversation.tools_version += 1

    def offer_tools(self, names: Iterable[str]) -> None:
        """Offer deferred tools to the model before the next sample."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            refuse("a list of names", names, "offer_tools")
        names = list(names)
        for name in names:
            if not isinstance(name, str):
                refuse("a list of names, each a string", name, "offer_tools")
        if self._conversation.offered_tools.add(names, self._plugin):
            self._conversation.tools_version += 1

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
        """Start a process of the plugin's own."""
        start = self._conversation.commands.start_process
        options: dict[str, Any] = {"inherit_env": inherit_env, "lossless": lossless, "grace_s": grace_s}
        try:
            return await start(argv, permissions, env or {}, cwd, tty=tty, terminal_size=terminal_size, **options)
        except CommandFailed as error:
            raise ToolError(str(error), slug=error.slug, hint=error.hint) from error
        except SandboxError as error:
            raise ToolRefused(f"{error}. {error.hint}".strip()) from error

    async def spawn(
        self,
        agent: Agent[Any],
        prompt: str | None = None,
        *,
        fork: int | None = 0,
        extra: Mapping[str, Any] | None = None,
        resume: str | None = None,
    ) -> ThreadClient:
        """Start a child thread."""
        check_agent(agent, "spawn")
        conversation = self._conversation
        child = await conversation.spawn(agent, prompt, Start(fork=fork, extra=extra or {}, resume=resume))
        conversation.children = [other for other in conversation.children if other.status != "closed"]
        conversation.children.append(child)
        return child

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Measure a block."""
        return span_of(self._conversation.host.broadcast, name, thread_id=self.id, attributes=attributes)


def check_json(kind: str, data: Mapping[str, Any]) -> None:
    """Check a plugin's entry for the record.

    Raises:
        WrongValue: It is not plain JSON data.
    """
    import json

    if not isinstance(kind, str):
        refuse("a word as its kind", kind, "append_entry")
    if not isinstance(data, Mapping):
        refuse("a mapping of plain JSON data", data, "append_entry")
    try:
        json.dumps(dict(data), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "Pass a mapping of strings, numbers, lists and mappings."
        raise WrongValue(f"append_entry() takes plain JSON data: {error}", hint=hint) from None
