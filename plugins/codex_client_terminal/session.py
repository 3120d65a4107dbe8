"""The kernel and the thread that the person works in. Loaded after the first screen, because the kernel takes longer to import."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codex_client_terminal.extensions import Extensions
from codex_client_terminal.transcript import Past
from codex_framework import Event, Kernel, ModelPrices, Op, Settings, StoredThread, Thread, ThreadError
from codex_framework.config.permissions import named_permissions, profile_names
from codex_framework.contract.protocol.events import SessionConfiguredEvent
from codex_framework.contract.protocol.ops import (
    LocalImageInput,
    TextInput,
    ThreadSettings,
    ThreadSettingsOverrides,
    UserInputItem,
)
from codex_framework.contract.roles.stores import ThreadQuery, ThreadStore
from codex_framework.toolkit.front_ends import FrontEndStart
from codex_framework.toolkit.model_catalogue import bundled_models

__all__ = ["Session", "SubAgent", "extensions_of"]

_MOST_SUB_AGENTS = 200
_ANSWER_S = 30.0
_EVENTS_AT_ONCE = 64
"""The number of events that are shown before keys are checked again."""


class SubAgent(NamedTuple):
    """A sub-agent of the thread. ``thread`` is None if it is only stored."""

    id: str
    about: Mapping[str, Any]
    task: str
    thread: Thread | None

    @property
    def name(self) -> str:
        """Its name with its role, or its task if it has no name."""
        role = self.about.get("agent_role")
        return f"{self.about.get('agent_nickname') or self.task or self.id}{f' ({role})' if role else ''}"

    @property
    def state(self) -> str:
        """The current activity."""
        return "ended" if self.thread is None else self.thread.status


class Session:
    """A kernel with one thread, which can be exchanged.

    Attributes:
        used: Whether the thread has a message of the person, so that it can be resumed.

    Args:
        on_event: Called with every event of the thread.
    """

    def __init__(self, kernel: Kernel, start: FrontEndStart, on_event: Callable[[Event], None]) -> None:
        self.kernel = kernel
        self._start = start
        self._on_event = on_event
        self._thread: Thread | None = None
        self._following: asyncio.Task[None] | None = None
        self.used = False
        self._prices: tuple[str, ModelPrices | None] | None = None

    @classmethod
    async def open(cls, config: Any, start: FrontEndStart, on_event: Callable[[Event], None]) -> Session:
        """Load the plugins. Raises CodexError."""
        logging.getLogger("codex_framework").addHandler(logging.NullHandler())  # what is logged is also a warning
        kernel = await Kernel.create(config, plugins=[Path(file) for file in start.plugin_files])
        return cls(kernel, start, on_event)

    @property
    def thread(self) -> Thread:
        """The thread. There is one once :meth:`new`, :meth:`resume` or :meth:`fork` has returned."""
        assert self._thread is not None
        return self._thread

    @property
    def started(self) -> bool:
        """Whether there is a thread."""
        return self._thread is not None

    @property
    def extensions(self) -> Extensions:
        """The additions of plugins to the terminal."""
        return extensions_of(self.kernel)

    # The thread

    async def new(self, agent: str | None = None) -> None:
        """Start a thread, with an agent of the configuration or of a plugin if one is named. Raises CodexError."""
        whole_items = {"history_mode": "paginated"}  # as Codex does, so that a resumed session can show its commands
        thread = await self.kernel.start_thread(
            self._settings(),
            agent=None if agent is None else self.kernel.agent(agent),
            source="cli",
            originator=_originator(),
            extra=whole_items,
        )
        await self._exchange(thread)

    async def resume(self, thread_id: str) -> Past:
        """Resume a stored thread, and return its contents. Raises CodexError."""
        if self._thread is not None and self._thread.id == thread_id:
            raise ThreadError("this is the running session already", slug="busy", hint="Choose another one.")
        thread = await self.kernel.resume_thread(thread_id, self._resumed_settings(), originator=_originator())
        first = await anext(thread.events([SessionConfiguredEvent], answers=False))
        await self._exchange(thread)
        self.used = True
        return Past.of(getattr(first.msg, "initial_messages", None) or ())

    async def fork(self, thread_id: str, at: int | str | None = None) -> Past:
        """Start a copy of a stored thread, and return its contents. Raises CodexError."""
        if self._thread is not None:
            self._thread.save()
        new_id = await asyncio.to_thread(self.kernel.fork_thread, thread_id, at=at)
        return await self.resume(new_id)

    def latest(self, *, all_folders: bool) -> str | None:
        """Return the id of the newest stored thread."""
        return self.kernel.latest_thread(cwd=None if all_folders else self.kernel.settings().cwd)

    def working_agents(self) -> list[Thread]:
        """Return the threads of sub-agents that are at work."""
        return [each for each in self.kernel.threads.values() if each is not self._thread and each.running]

    async def close(self) -> None:
        """Shut everything down. The thread is saved."""
        if self._thread is not None:
            await self._thread.shutdown()
        if self._following is not None:
            await asyncio.wait((self._following,), timeout=2)
        await self.kernel.aclose()

    def _settings(self) -> Settings:
        settings = self.kernel.settings()
        folders = [os.path.normpath(settings.cwd / folder) for folder in self._start.writable_folders]
        if folders and settings.permissions.writes_workspace:
            return settings.evolve(permissions=settings.permissions.with_writable(folders))
        return settings

    def _resumed_settings(self) -> Settings | None:
        """Return the settings of a resumed thread. None keeps the stricter approval policy of its record."""
        return self._settings() if self._start.writable_folders else None

    async def _exchange(self, thread: Thread) -> None:
        before, following = self._thread, self._following
        self._thread, self.used = thread, False
        self._following = asyncio.ensure_future(self._follow(thread, thread.events()))
        if before is not None:
            await before.shutdown()
        if following is not None:
            await asyncio.wait((following,), timeout=2)

    async def _follow(self, thread: Thread, events: AsyncIterator[Event]) -> None:
        count = 0
        async for event in events:
            if thread is self._thread:
                self._on_event(event)
            count += 1
            if count % _EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)

    # What the person does

    def send(self, text: str, images: Sequence[str] = ()) -> None:
        """Start a turn, or give the message to the running one. Raises CodexError."""
        items: list[UserInputItem] = [*(LocalImageInput(path) for path in images), TextInput(text)]
        if self.thread.running:
            self.thread.steer(items)
        else:
            self.thread.start(items)

    async def submit(self, tag: str, **fields: Any) -> None:
        """Submit an op of a plugin. Raises CodexError."""
        op = await self.make_op(tag, **fields)
        await self.thread.submit(op)  # of the thread that there is now

    async def make_op(self, tag: str, **fields: Any) -> Op:
        """Return an op of a plugin. The plugin may be imported for it, without delaying keys. Raises CodexError."""
        return await asyncio.to_thread(lambda: self.kernel.op(tag, **fields))

    async def change(self, **settings: Any) -> None:
        """Change settings of the thread, from its next turn on. Raises CodexError."""
        await self.thread.submit(ThreadSettings(ThreadSettingsOverrides(**settings)))

    async def ask(self, op: Op, answer: str) -> Any:
        """Submit an op, and return the event with this tag that answers it, or None after a time limit. Raises CodexError."""
        events = self.thread.events(answers=False)
        try:
            submission = await self.thread.submit(op)
            async with asyncio.timeout(_ANSWER_S):
                async for event in events:
                    if event.id == submission and event.msg.type in (answer, "error"):
                        return event.msg if event.msg.type == answer else None
        except TimeoutError:
            pass
        finally:
            events.close()
        return None

    # Lists

    def models(self) -> list[Any]:
        """Return the models of the provider, the recommended ones first."""
        provider = self.thread.settings.provider
        known: dict[str, Any] = {}
        for catalogue in self.kernel.registry.catalogues.values():
            known = {**{model.slug: model for model in catalogue.models(provider)}, **known}
        known.update({model.slug: model for model in bundled_models() if model.slug not in known})
        return [model for model in known.values() if not model.hidden]

    def cost(self) -> str:
        """Return the cost of the thread so far, in words. Empty if the prices of the model are unknown."""
        model = self.thread.settings.model
        if self._prices is None or self._prices[0] != model:
            self._prices = (model, next((each.prices for each in self.models() if each.slug == model), None))
        prices, usage = self._prices[1], self.thread.usage
        if prices is None:
            return ""
        fresh = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_input_tokens
        cached = prices.input if prices.cached_input is None else prices.cached_input
        written = prices.input if prices.cache_write is None else prices.cache_write
        total = fresh * prices.input + usage.cached_input_tokens * cached + usage.cache_write_input_tokens * written
        amount = (total + usage.output_tokens * prices.output) / 1_000_000
        return f"${amount:.2f}" if prices.currency == "USD" else f"{amount:.2f} {prices.currency}"

    def profiles(self) -> list[str]:
        """Return the names of the permission profiles."""
        return list(profile_names(self.kernel.config))

    def permissions(self, name: str) -> Any:
        """Return the permissions of a profile. Raises ConfigError."""
        return named_permissions(self.kernel.config, name)

    @property
    def store(self) -> ThreadStore:
        """The store of threads. Raises ThreadError if no plugin offers it."""
        return self.kernel.thread_store

    @property
    def home(self) -> str:
        """``$CODEX_HOME``."""
        return str(self.kernel.config.codex_home)

    async def load(self, thread_id: str) -> StoredThread:
        """Return the record of a thread. Raises ThreadError."""
        return await asyncio.to_thread(self.store.load, thread_id, self.home)

    async def stored(self) -> StoredThread | None:
        """Return the current record of the thread, or None if it has no record yet."""
        if self.thread.rollout_path is None:
            return None
        self.thread.save()
        try:
            return await self.load(self.thread.id)
        except ThreadError:
            return None

    async def sub_agents(self) -> Sequence[SubAgent]:
        """Return the sub-agents of the thread, active and stored ones, the oldest first."""
        parent = self.thread.id
        found = {}
        query = ThreadQuery(limit=_MOST_SUB_AGENTS, subagents=True)
        page = await asyncio.to_thread(self.store.find, query, self.home)
        for each in page.threads:
            if each.parent_id == parent and each.meta is not None:
                found[each.id] = SubAgent(each.id, each.meta.extra, each.preview or "", None)
        for thread in self.kernel.threads.values():
            if thread.meta.extra.get("parent_thread_id") == parent:
                task = found[thread.id].task if thread.id in found else ""
                found[thread.id] = SubAgent(thread.id, thread.meta.extra, task, thread)
        return [*reversed(found.values())]


def extensions_of(kernel: Kernel) -> Extensions:
    """Return the additions of a kernel's plugins to the terminal."""
    offered = (getattr(offer.item, "extensions", None) for offer in kernel.registry.components.values())
    return next((each for each in offered if isinstance(each, Extensions)), Extensions())


def _originator() -> str:
    return os.environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_cli_rs"
