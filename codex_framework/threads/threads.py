"""The threads of a kernel: starting, resuming, spawning and finding them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.items import ResponseItem, with_paired_outputs
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import StoredThread, ThreadMeta, ThreadRecorder
from codex_framework.contract.version import __version__
from codex_framework.threads.agents import agent_settings, check_agent, narrow_settings, starting_settings
from codex_framework.threads.budget import Spent, spent_so_far
from codex_framework.threads.constraints import check_settings, settle_settings
from codex_framework.threads.conversation import Conversation, Origin, Start
from codex_framework.threads.environments import apply_environments, keep_environments
from codex_framework.threads.faults import Label, no_store
from codex_framework.threads.history import History
from codex_framework.threads.host import Host
from codex_framework.threads.ids import new_id
from codex_framework.threads.journal import Journal
from codex_framework.threads.spans import event
from codex_framework.threads.stored_threads import (
    Store,
    count_tokens,
    create_record,
    find_newest,
    fork_thread,
    inherited_items,
    keep_mode,
    keep_model,
    known_events,
    load_thread,
    model_changes,
    reopen_record,
    usage_so_far,
)
from codex_framework.threads.thread import Thread
from codex_framework.threads.turn.turn_permissions import keep_within_parent

__all__ = ["Threads"]

_DEEPEST_EXTRA = 256

_SUBAGENT = "subagent"
"""The source of the threads that a thread spawned."""


class Threads:
    """The threads of one kernel.

    Attributes:
        running: The threads that have not been shut down, by id.
    """

    def __init__(self) -> None:
        self.running: dict[str, Thread] = {}
        self._forked: set[str] = set()

    def start(
        self,
        host: Host,
        settings: Settings,
        *,
        agent: Agent[Any] | None,
        source: str,
        originator: str | None,
        base_instructions: str | None,
        extra: Mapping[str, Any],
        thread_id: str | None,
        services: Mapping[ServiceKey[Any], object] | None,
    ) -> Thread:
        """Start a conversation. Raises CodexError and TypeError for an agent, an ``extra`` or an id that cannot be used."""
        if agent is not None:
            check_agent(agent, "start_thread")
            settings = starting_settings(settings, agent, host)
            base_instructions = base_instructions or agent.instructions
        settings, warnings = settle_settings(host.registry, apply_environments(settings, host.environments))
        check_settings(host.registry, settings)
        _check_extra(extra)
        meta = _meta(host, settings, source, originator, base_instructions, extra)
        if thread_id is not None:
            meta = meta.evolve(id=self._unused_id(thread_id))
        thread = self._open_thread(
            host, meta, settings, _recorder(host, meta, settings), agent=agent, services=services
        )
        _tell(thread, warnings, "start")
        return thread

    def _unused_id(self, thread_id: str) -> str:
        """Return an id in the form of records. Raises ThreadError for an id that cannot be given to a new thread."""
        import uuid  # not before the first thread with a given id

        try:
            found = str(uuid.UUID(thread_id))
        except ValueError:
            raise ThreadError(
                f"{thread_id!r} cannot be the id of a thread", slug="bad-request", hint="Pass a UUID."
            ) from None
        if found in self.running:
            raise _running(found)
        return found

    def read(self, host: Host, thread_id: str) -> StoredThread:
        """Read a thread that is not running from the store.

        Raises:
            ThreadError: The thread does not exist, cannot be read, or is already running.
        """
        stored = load(host, thread_id)
        if stored.meta.id in self.running:
            raise _running(stored.meta.id)
        return stored

    def resume(
        self, host: Host, stored: StoredThread, settings: Settings, *, agent: Agent[Any] | None, originator: str | None
    ) -> Thread:
        """Resume a stored conversation. Raises the same errors as :meth:`start`."""
        if agent is not None:
            check_agent(agent, "resume_thread")
            settings = starting_settings(settings, agent, host)
        settings, skipped = keep_environments(stored, keep_mode(stored, settings), host.environments)
        settings, warnings = settle_settings(host.registry, apply_environments(settings, host.environments))
        check_settings(host.registry, settings)
        meta = stored.meta.evolve(originator=originator or _originator(host))
        store = _store(host)
        home = str(host.codex_home)
        recorder = None if settings.ephemeral or store is None else reopen_record(store, stored, home)
        origin: Origin = "forked" if meta.id in self._forked else "resumed"
        self._forked.discard(meta.id)
        thread = self._open_thread(host, meta, settings, recorder, agent=agent, origin=origin, stored=stored)
        _tell(thread, skipped, "resumed")
        _tell(thread, warnings, "start")
        return thread

    def latest(self, host: Host, cwd: str | None) -> str | None:
        """Return the id of the newest stored thread. With ``cwd``, only threads that were started there are considered.

        Raises:
            ThreadError: No plugin stores threads.
        """
        store = _store(host)
        if store is None:
            raise no_store()
        return find_newest(store, str(host.codex_home), cwd)

    def fork(self, host: Host, thread_id: str, at: int | str | None) -> str:
        """Store a new thread that begins as a stored one, and return its id.

        Raises:
            ThreadError: There is no such thread or turn, or it cannot be written.
        """
        store = _store(host)
        if store is None:
            raise no_store()
        if thread_id in self.running:
            self.running[thread_id].save()
        new = new_id()
        fork_thread(store, thread_id, str(host.codex_home), new, at)
        self._forked.add(new)
        return new

    def forget(self, thread_id: str) -> None:
        """Remove a thread that has shut down."""
        self.running.pop(thread_id, None)

    def _open_thread(
        self,
        host: Host,
        meta: ThreadMeta,
        settings: Settings,
        recorder: ThreadRecorder | None,
        *,
        agent: Agent[Any] | None = None,
        services: Mapping[ServiceKey[Any], object] | None = None,
        parent: Conversation | None = None,
        origin: Origin = "new",
        stored: StoredThread | None = None,
        items: Sequence[ResponseItem] = (),
    ) -> Thread:
        past = () if stored is None else known_events(stored.events, host.registry)
        history = History.resume(() if stored is None else stored.history)
        if (count := count_tokens(past)) > history.tokens:
            history.set_count(count)
        journal = Journal(
            meta.id,
            history=history,
            broadcast=host.broadcast,
            recorder=recorder,
            store=_store_label(host, str(host.config.get("framework.thread_store") or "rollout")),
            entries=() if stored is None else stored.entries,
        )
        conversation = Conversation(
            host=host,
            spawn=self._spawn,
            settings=settings,
            meta=meta,
            journal=journal,
            agent=agent,
            parent=parent,
            origin=origin,
            services=services,
            usage=usage_so_far(past),
            spent=Spent() if stored is None else spent_so_far(past, stored.entries),
            inherited=parent.origins if parent is not None and items else None,
        )
        if stored is not None:
            conversation.previous_model = host.models.last_model(stored, settings)

        if items:
            journal.record(with_paired_outputs(items))  # in the child's own record too, or a resume would lose them
        warnings = () if stored is None else (*stored.warnings, *model_changes(stored, settings))
        thread = Thread(conversation, past=past, warnings=warnings)
        self.running[thread.id] = thread
        if host.broadcast.measures:
            _report_start(conversation)
        for warning in (*host.config.warnings, *host.registry.warnings) if parent is None else ():
            thread.warn(warning, slug="start")
        return thread

    def _spawn(self, parent: Conversation, agent: Agent[Any], prompt: str | None, start: Start) -> Thread:
        """Start or resume a child with at most the current permissions of its parent."""
        host = parent.host
        keep_within_parent(parent)
        wanted = agent_settings(parent.settings, agent, host.named_permissions)
        settings = narrow_settings(wanted, parent.settings, agent, host)
        check_settings(host.registry, settings)
        child = self._resume_child(parent, agent, settings, start.resume) if start.resume is not None else None
        if child is None:
            _check_extra(start.extra)
            extra = {**start.extra, "parent_thread_id": parent.id, "agent": agent.name}
            meta = _meta(host, settings, _SUBAGENT, parent.meta.originator, agent.instructions, extra)
            recorder = _recorder(host, meta, settings) if parent.journal.is_stored else None
            items = inherited_items(parent.journal.history.items, start.fork)
            child = self._open_thread(
                host, meta, settings, recorder, agent=agent, parent=parent, origin="spawned", items=items
            )
        if prompt is not None:
            child.start(prompt)
        return child

    def _resume_child(self, parent: Conversation, agent: Agent[Any], settings: Settings, thread_id: str) -> Thread:
        """Resume a child of a thread.

        Raises:
            ThreadError: There is no such child, it cannot be read, or it is already running.
        """
        host = parent.host
        stored = self.read(host, thread_id)
        if stored.meta.extra.get("parent_thread_id") != parent.id:
            raise ThreadError(
                f"thread {thread_id} is not a child of thread {parent.id}",
                slug="thread-not-found",
                hint="Name a thread that this thread has spawned.",
            )
        settings, _ = keep_environments(
            stored, keep_mode(stored, keep_model(stored, settings, agent)), host.environments
        )
        store = _store(host)
        recorder = None if settings.ephemeral or store is None else reopen_record(store, stored, str(host.codex_home))
        return self._open_thread(
            host, stored.meta, settings, recorder, agent=agent, parent=parent, origin="resumed", stored=stored
        )


def load(host: Host, thread_id: str) -> StoredThread:
    """Read a thread from the store. Raises ThreadError."""
    store = _store(host)
    if store is None:
        raise no_store()
    return load_thread(store, thread_id, str(host.codex_home))


def _store(host: Host) -> Store | None:
    wanted = str(host.config.get("framework.thread_store") or "rollout")
    store = host.registry.thread_stores.get(wanted)
    return None if store is None else Store(store, _store_label(host, wanted))


def _store_label(host: Host, name: str) -> Label:
    return Label("thread store", name, host.registry.owners.get(("thread_stores", name), ""))


def _recorder(host: Host, meta: ThreadMeta, settings: Settings) -> ThreadRecorder | None:
    store = None if settings.ephemeral else _store(host)
    return None if store is None else create_record(store, meta, str(host.codex_home))


def _meta(
    host: Host,
    settings: Settings,
    source: str,
    originator: str | None,
    base_instructions: str | None,
    extra: Mapping[str, Any],
) -> ThreadMeta:
    return ThreadMeta(
        id=new_id(),
        cwd=str(settings.cwd),
        created_at=time.time(),
        originator=originator or _originator(host),
        source=source,
        cli_version=__version__,
        model_provider=settings.provider.id,
        base_instructions=base_instructions or host.models.instructions(host.models.info(settings)),
        extra=dict(extra),
    )


def _running(thread_id: str) -> ThreadError:
    return ThreadError(f"thread {thread_id} is already running", slug="busy", hint="Use the running one.")


def _tell(thread: Thread, warnings: Iterable[str], slug: str) -> None:
    for warning in warnings:
        thread.warn(warning, slug=slug)


def _check_extra(extra: Mapping[str, Any]) -> None:
    """Check that extra metadata can be stored. With metadata that cannot, nothing of the conversation would be stored.

    Raises:
        ThreadError: It is not plain JSON data, or nested too deeply.
    """
    level: list[Any] = [extra]
    depth = 0
    while level and depth <= _DEEPEST_EXTRA:
        parts = (part.values() if isinstance(part, Mapping) else part for part in level)
        level = [value for part in parts for value in part if isinstance(value, (Mapping, list, tuple))]
        depth += 1
    problem = f"it is nested more than {_DEEPEST_EXTRA} levels deep" if level else None
    try:
        if problem is None and extra:
            json.dumps(dict(extra), allow_nan=False)
    except (TypeError, ValueError) as error:
        problem = str(error)
    if problem is not None:
        raise ThreadError(
            f"the `extra` of a thread cannot be saved: {problem}", slug="bad-request", hint="Pass plain JSON data."
        )


def _originator(host: Host) -> str:
    return host.environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_framework"


def _report_start(conversation: Conversation) -> None:
    """Report a new thread and its settings to telemetry."""
    settings, meta = conversation.settings, conversation.meta
    model = conversation.host.models.info(settings)
    servers = conversation.config.get("mcp_servers") or {}
    told: dict[str, Any] = {
        "provider_name": settings.provider.id,
        "model": settings.model,
        "reasoning_effort": settings.reasoning_effort or model.default_effort,
        "reasoning_summary": settings.reasoning_summary or "auto",
        "context_window": model.context_window,
        "auto_compact_token_limit": conversation.config.get("model_auto_compact_token_limit"),
        "approval_policy": _policy_name(to_wire(settings.approval_policy)),
        "sandbox_policy": _policy_name(to_wire(settings.sandbox_policy)),
        "mcp_servers": ", ".join(sorted(servers)),
        "active_profile": conversation.config.get("profile"),
        "originator": meta.originator,
        "session_source": meta.source,
        "origin": conversation.origin,
    }
    known = {name: value for name, value in told.items() if value is not None}
    event(conversation.host.broadcast, "codex.conversation_starts", known, thread_id=conversation.id)


def _policy_name(policy: Any) -> str:
    """Return the name of a policy, without its details, which may contain paths."""
    if isinstance(policy, Mapping):
        return str(policy.get("type") or next(iter(policy), ""))
    return str(policy)
