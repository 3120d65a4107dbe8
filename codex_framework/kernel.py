"""The kernel: loads plugins once, starts and resumes threads, and lets everything go at the end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from codex_framework import __version__
from codex_framework.broadcast import Broadcast
from codex_framework.commands import Confinements
from codex_framework.config import Config, load_config
from codex_framework.config.permissions import named_permissions
from codex_framework.config.settings import Settings, fallback_model
from codex_framework.errors import CodexError, ThreadError
from codex_framework.instructions import base_instructions as instructions_for
from codex_framework.programs import ProgramFolder
from codex_framework.protocol.ops import UserInputItem
from codex_framework.registry import Registry, load_registry
from codex_framework.roles.providers import ModelClient, ModelInfo, ProviderInfo
from codex_framework.roles.sandboxes import Configured
from codex_framework.roles.stores import StoredThread, ThreadMeta, ThreadStore
from codex_framework.shells import user_shell
from codex_framework.thread import Thread, TurnResult, new_id
from codex_framework.turn import Status
from codex_framework.turn_scope import Resources

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Kernel", "run"]


class Kernel:
    """Loaded plugins, shared by any number of threads. Use :meth:`create`, and as an async context manager."""

    def __init__(self, config: Config, registry: Registry, environ: Mapping[str, str]) -> None:
        self.config = config
        self.registry = registry
        self.threads: dict[str, Thread] = {}
        self._environ = environ
        self._clients: list[tuple[ProviderInfo, ModelClient]] = []
        wanted = config.get("framework.sandbox")
        self._confinements = Confinements(registry.sandboxes, wanted if isinstance(wanted, str) else None)
        self._broadcast = Broadcast(
            observers=registry.observers,
            notifiers=registry.notifiers,
            telemetry=registry.telemetry,
            report=self._report,
        )
        self._resources = Resources(
            registry=registry,
            config=config.tables,
            codex_home=config.codex_home,
            environ=environ,
            shell=user_shell(),
            confinements=self._confinements,
            broadcast=self._broadcast,
            programs=ProgramFolder(config.codex_home, registry.programs),
            client=self._client,
            model=self._model,
            instructions=lambda model: instructions_for(config, model),
            forget=lambda thread_id: self.threads.pop(thread_id, None),
            named_permissions=lambda name: named_permissions(config, name),
            start=lambda settings, instructions: self.start_thread(
                settings, source="subagent", base_instructions=instructions
            ),
        )

    @classmethod
    async def create(
        cls,
        config: Config | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        plugins: Sequence[object] = (),
        entry_points: Sequence[EntryPoint] | None = None,
    ) -> Kernel:
        """Load plugins and make a kernel.

        Args:
            config: From ``load_config``; by default that of the current folder.
            environ: Instead of ``os.environ``.
            plugins: Further plugins, as objects with hook implementations.
            entry_points: Instead of those of the installed distributions; ``()`` gives a kernel without any plugin.

        Raises:
            ConfigError: The configuration is wrong. A broken plugin is no error: see ``kernel.registry.reports``.
        """
        env = dict(os.environ if environ is None else environ)
        if config is None:
            config = load_config(cwd=Path.cwd(), environ=env)
        registry = load_registry(config.tables, entry_points=entry_points, extra_plugins=plugins)
        for sandbox in registry.sandboxes.values():
            if isinstance(sandbox, Configured):
                sandbox.configure(config)
        return cls(config, registry, env)

    async def __aenter__(self) -> Kernel:
        """Use the kernel until the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()

    def settings(self, **overrides: Any) -> Settings:
        """The settings a thread starts with: those of the configuration, with some replaced.

        Raises:
            ConfigError: They cannot be made of this configuration (unknown provider, ...).
        """
        settings = Settings.from_config(self.config, self.registry.builtin_providers)
        return settings.evolve(**overrides) if overrides else settings

    async def start_thread(
        self,
        settings: Settings | None = None,
        *,
        source: str = "custom",
        originator: str | None = None,
        base_instructions: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Thread:
        """Start a conversation.

        Args:
            base_instructions: Instead of those of the configuration or of the model.
            source: Who asks (``cli``, ``exec``, ...); kept in the thread's head.
            originator: The client's name in requests (default: ``$CODEX_INTERNAL_ORIGINATOR_OVERRIDE`` or ``codex_framework``).
            extra: Further fields of the thread's head (``thread_source``, ...).
            overrides: Fields of ``Settings`` to replace (``model=...``, ``cwd=...``).

        Raises:
            ConfigError: As :meth:`settings`.
        """
        settings = (settings or self.settings()).evolve(**overrides)
        meta = ThreadMeta(
            id=new_id(),
            cwd=str(settings.cwd),
            created_at=time.time(),
            originator=originator or self._originator(),
            source=source,
            cli_version=__version__,
            model_provider=settings.provider.id,
            base_instructions=base_instructions or instructions_for(self.config, self._model(settings)),
            extra=dict(extra or {}),
        )
        store = None if settings.ephemeral else self._store()
        recorder = None if store is None else store.create(meta, str(self.config.codex_home))
        thread = Thread(resources=self._resources, settings=settings, meta=meta, recorder=recorder)
        return self._started(thread)

    async def resume_thread(
        self, thread_id: str, settings: Settings | None = None, *, originator: str | None = None, **overrides: Any
    ) -> Thread:
        """Go on with a stored conversation, named by id, name or file.

        Raises:
            ThreadError: There is none, it cannot be read, or it is running already in this kernel.
            ConfigError: As :meth:`settings`.
        """
        stored = self._load(thread_id)
        if stored.meta.id in self.threads:
            raise ThreadError(f"thread {stored.meta.id} is running already", slug="busy", hint="Use the running one.")
        settings = (settings or self.settings()).evolve(**overrides)
        meta = stored.meta.evolve(originator=originator or self._originator())
        store = self._store()
        recorder = None if settings.ephemeral or store is None else store.reopen(stored, str(self.config.codex_home))
        thread = Thread(
            resources=self._resources,
            settings=settings,
            meta=meta,
            recorder=recorder,
            items=stored.history,
            past=stored.events,
            warnings=(*stored.warnings, *_model_changed(stored, settings)),
        )
        return self._started(thread)

    def latest_thread(self, *, cwd: Path | None = None) -> str | None:
        """The id of the newest stored thread, of those begun in ``cwd`` where that is given.

        Raises:
            ThreadError: No plugin stores threads.
        """
        store = self._store()
        if store is None:
            raise _no_store()
        return store.latest(str(self.config.codex_home), cwd=None if cwd is None else str(cwd))

    async def aclose(self) -> None:
        """Shut every thread down and let clients, sandboxes, proxies and watchers go. Safe to call twice."""
        for thread in list(self.threads.values()):
            await thread.shutdown()
        clients, self._clients = self._clients, []
        # One that cannot be closed must not keep the others open; the first error is told when all have had their turn.
        ends = [
            *(client.aclose() for _, client in clients),
            *(proxy.aclose() for proxy in self.registry.network_proxies.values()),
            self._confinements.aclose(),
            self._broadcast.close(),
        ]
        results = await asyncio.gather(*ends, return_exceptions=True)
        self._resources.programs.close()
        for error in results:
            if isinstance(error, BaseException):
                raise error

    def _started(self, thread: Thread) -> Thread:
        self.threads[thread.id] = thread
        for warning in (*self.config.warnings, *self.registry.warnings):
            thread.warn(warning)
        return thread

    def _load(self, thread_id: str) -> StoredThread:
        store = self._store()
        if store is None:
            raise _no_store()
        return store.load(thread_id, str(self.config.codex_home))

    def _store(self) -> ThreadStore | None:
        wanted = self.config.get("framework.thread_store") or "rollout"
        return self.registry.thread_stores.get(str(wanted))

    def _client(self, info: ProviderInfo) -> ModelClient:
        """The client for a provider, made at first need and shared by all threads."""
        for known, client in self._clients:
            if known == info:
                return client
        provider = self.registry.providers.get(info.wire_api)
        if provider is None:
            served = ", ".join(sorted(self.registry.providers)) or "none: no plugin offers one"
            raise CodexError(
                f"no plugin serves wire_api {info.wire_api!r} of model provider {info.id!r}",
                slug="no-provider",
                hint=f"Set wire_api to one that is served ({served}), or install a plugin that serves it."
                " `codex-framework plugins` shows what is loaded.",
            )
        client = provider.open(info, self._environ)
        if "record" in info.options:
            from codex_framework.recording import recorded

            client = recorded(client, info, self._environ)
        self._clients.append((info, client))
        return client

    def _model(self, settings: Settings) -> ModelInfo:
        provider = self.registry.providers.get(settings.provider.wire_api)
        info = provider.model(settings.model) if provider is not None else None
        return settings.with_overrides(info or fallback_model(settings.model))

    def _originator(self) -> str:
        return self._environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_framework"

    def _report(self, thread_id: str, sentence: str) -> None:
        thread = self.threads.get(thread_id)
        for listener in [thread] if thread is not None else list(self.threads.values()):
            listener.warn(sentence)


def run(
    prompt: str | Sequence[UserInputItem],
    *,
    config: Config | None = None,
    plugins: Sequence[object] = (),
    output_schema: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> str:
    """Run one turn and return the model's final message.

    Args:
        prompt: Text, or input items.
        config: As for ``Kernel.create``.
        plugins: As for ``Kernel.create``.
        output_schema: A JSON Schema the final message must follow.
        overrides: As for ``Kernel.start_thread``.

    Raises:
        CodexError: The turn failed, or could not begin.
    """

    async def turn() -> TurnResult:
        async with await Kernel.create(config, plugins=plugins) as kernel:
            thread = await kernel.start_thread(**overrides)
            return await thread.run(prompt, output_schema=output_schema)

    result = asyncio.run(turn())
    if result.status is not Status.COMPLETED:
        raise CodexError(result.error or "the turn was interrupted", slug="turn-failed")
    return result.final_message or ""


def _model_changed(stored: StoredThread, settings: Settings) -> tuple[str, ...]:
    before = (stored.last_turn_context or {}).get("model")
    if before is None or before == settings.model:
        return ()
    return (
        f"the thread was last used with model `{before}` and now goes on with `{settings.model}`; answers may differ",
    )


def _no_store() -> ThreadError:
    return ThreadError(
        "no plugin stores threads",
        slug="no-store",
        hint="Enable the plugin `rollout`, or name another store in `[framework] thread_store`.",
    )
