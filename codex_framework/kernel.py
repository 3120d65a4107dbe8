"""The kernel: loads plugins once, starts and resumes threads, and releases all resources at the end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework.commands.protected_paths import ProtectedPaths
from codex_framework.config import Config, load_config, overridden, with_overrides
from codex_framework.config.checking import check_guards, idle_settings
from codex_framework.contract.protocol.events import Event
from codex_framework.contract.protocol.ops import Op, UserInputItem
from codex_framework.contract.roles.agents import Agent, RunResult
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.stores import ThreadStore
from codex_framework.contract.roles.threads import KernelContext
from codex_framework.loader.context import configuration_of
from codex_framework.loader.discovery import EntryPointLike
from codex_framework.loader.registry import Registry, load_registry
from codex_framework.loader.report import PluginStatus
from codex_framework.threads.agents import find_agent
from codex_framework.threads.broadcast import Broadcast
from codex_framework.threads.components import Components
from codex_framework.threads.faults import no_store
from codex_framework.threads.host import Host
from codex_framework.threads.plugin_calls import close_all
from codex_framework.threads.plugin_kernel import PluginKernel, op_of
from codex_framework.threads.plugin_view import Background, PluginState, Services
from codex_framework.threads.stalls import Stall, StallWatch, stall_warning
from codex_framework.threads.stored_threads import keep_approval_policy
from codex_framework.threads.thread import Answerer, Thread
from codex_framework.threads.threads import Threads, load

if TYPE_CHECKING:
    from typing import Unpack

    from codex_framework.contract.roles.setting_overrides import SettingsOverrides, ThreadOptions

__all__ = ["Kernel"]

OutputT = TypeVar("OutputT")


class Kernel:
    """Loaded plugins, shared by any number of threads. Use :meth:`create`, and as an async context manager."""

    _host: Host

    def __init__(self, config: Config, registry: Registry, environ: Mapping[str, str]) -> None:
        self.config = config
        self.registry = registry
        self._environ = environ
        self._threads = Threads()
        self._services = Services()
        self._components = Components(registry.components, self._services)
        self._state = PluginState()
        self._background = Background(self.warn)
        self._contexts: dict[str, PluginKernel] = {}
        self._unheard: list[str] = []
        self._stalls = StallWatch(self._log_stall, self._tell_stall)
        self._broadcast = Broadcast(
            observers=registry.observers,
            notifiers=registry.notifiers,
            telemetry=registry.telemetry,
            report=self._report,
        )
        self._make_parts()

    @property
    def threads(self) -> Mapping[str, Thread]:
        """The threads that have not been shut down, by id."""
        return self._threads.running

    @property
    def thread_store(self) -> ThreadStore:
        """The store of ``[framework] thread_store``. Raises ThreadError if no plugin offers it."""
        store: ThreadStore | None = self.registry.thread_stores.get(
            str(self.config.get("framework.thread_store") or "rollout")
        )
        if store is None:
            raise no_store()
        return store

    @property
    def deciding(self) -> ProtectedPaths:
        """The places that no command and no tool may write."""
        return self._host.deciding

    @classmethod
    async def create(
        cls,
        config: Config | PluginContext | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        plugins: Sequence[object] = (),
        entry_points: Sequence[EntryPointLike] | None = None,
    ) -> Kernel:
        """Load plugins, create a kernel and start its components.

        Args:
            config: The configuration from ``load_config``, or the context of a plugin whose command runs, for the configuration
                that the command line means. By default, the configuration of the current folder.
            environ: Environment variables to use instead of ``os.environ``.
            plugins: Further plugins: modules, subclasses of ``Plugin``, other objects with hook implementations, or the
                ``Path`` of a file.
            entry_points: Entry points to use instead of the entry points of installed distributions. ``()`` loads no installed
                plugin.

        Raises:
            ConfigError: The configuration is invalid. A broken plugin is not an error: see ``kernel.registry.reports``.
            PluginError: A required component did not start, or a component of a plugin that offers safeguards.
        """
        env = dict(os.environ if environ is None else environ)
        if config is None:
            config = load_config(cwd=Path.cwd(), environ=env)
        elif not isinstance(config, Config):
            config = configuration_of(config)
        registry = load_registry(config, environ=env, entry_points=entry_points, extra_plugins=plugins)
        config = config if registry.constrain is None else registry.constrain(config)
        check_guards(config, registry.config_keys, registry.protected_paths)
        if (idle := idle_settings(config.tables, registry.config_keys)) is not None:
            config = config.evolve(warnings=(*config.warnings, idle))
        kernel = cls(config, registry, env)
        if registry.components:
            await kernel._start_components()
        return kernel

    async def __aenter__(self) -> Kernel:
        """Use the kernel until the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()

    def settings(self, **overrides: Unpack[SettingsOverrides]) -> Settings:
        """Return the settings that a thread starts with: the configuration's settings, with some fields replaced.

        Raises:
            ConfigError: The configuration does not permit these settings (unknown provider, ...), or an override is not a
                setting or has the wrong type.
        """
        return with_overrides(self._host.settings, overrides)

    def agent(self, name: str) -> Agent[Any]:
        """Return an agent by name: a plugin's agent, or a new one with the settings of ``[agents.NAME]``.

        Raises:
            ThreadError: No agent has this name.
        """
        return find_agent(name, self.config, self.registry)

    def op(self, tag: str, **fields: Any) -> Op:
        """Return an op by its tag, without importing the plugin that handles it.

        Raises:
            ThreadError: No plugin handles it, or the fields do not fit.
        """
        return op_of(self.registry, tag, fields)

    async def start_thread(
        self,
        settings: Settings | None = None,
        *,
        agent: Agent[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        source: str = "custom",
        originator: str | None = None,
        base_instructions: str | None = None,
        extra: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        services: Mapping[ServiceKey[Any], object] | None = None,
        **overrides: Unpack[SettingsOverrides],
    ) -> Thread:
        """Start a conversation.

        Args:
            agent: The agent that defines the instructions, model, tools, permissions and limits of the thread. An agent
                selected by name can only restrict the permissions of the settings.
            config: Configuration keys with their values for this thread: ``{"model_verbosity": "low"}``.
            base_instructions: Base instructions that override the configuration and the model.
            source: The origin of the thread (``cli``, ``exec``, ...), stored in its metadata.
            originator: The client's name in requests (default: ``$CODEX_INTERNAL_ORIGINATOR_OVERRIDE`` or ``codex_framework``).
            extra: Further fields of the thread's metadata (``thread_source``, ...), as plain JSON data.
            thread_id: The id of the thread, a UUID that no stored thread has. By default, a new one.
            services: Services for this thread only. They have priority over services of components.
            overrides: Fields of ``Settings`` to replace (``model=...``, ``cwd=...``).

        Raises:
            ConfigError: As for :meth:`settings`; or a key of ``config`` is unknown, has the wrong type, or applies to the whole
                kernel.
            ThreadError: The agent asks for more than the settings permit, ``extra`` cannot be stored, or ``thread_id`` is no
                UUID or the id of a running thread.
        """
        host, settings = self._configured(settings, config, overrides)
        thread = self._threads.start(
            host,
            settings,
            agent=agent,
            source=source,
            originator=originator,
            base_instructions=base_instructions,
            extra=extra or {},
            thread_id=thread_id,
            services=services,
        )
        for _ in range(4 if thread.conversation.begins_work else 0):
            await asyncio.sleep(0)  # lets plugins start their processes before the client prepares the first turn
        return thread

    async def resume_thread(
        self,
        thread_id: str,
        settings: Settings | None = None,
        *,
        agent: Agent[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        originator: str | None = None,
        **overrides: Unpack[SettingsOverrides],
    ) -> Thread:
        """Resume a stored conversation by id, name or file. It takes the same arguments as :meth:`start_thread`.

        Settings come from the configuration and the arguments, not from the record, with two exceptions. The collaboration mode
        is restored. Without ``settings``, ``agent`` and ``approval_policy``, the last approval policy is restored if it is
        stricter than the configuration's. Any other difference causes a warning.

        Raises:
            ThreadError: The thread does not exist, cannot be read, is already running in this kernel, or the agent asks for
                more than the settings permit.
            ConfigError: As for :meth:`start_thread`.
        """
        stored = self._threads.read(self._host, thread_id)
        implied = settings is None and agent is None and "approval_policy" not in overrides
        host, settings = self._configured(settings, config, overrides)
        warnings: Sequence[str] = ()
        if implied:
            settings, warnings = keep_approval_policy(stored, settings)
        thread = self._threads.resume(host, stored, settings, agent=agent, originator=originator)
        for text in warnings:
            thread.warn(text, slug="resumed")
        return thread

    def fork_thread(self, thread_id: str, *, at: int | str | None = None) -> str:
        """Store a new thread that begins as a stored one, and return its id for :meth:`resume_thread`. Raises ThreadError.

        ``at`` is the last turn to keep: its number, starting at 1, or its id. None keeps all turns.
        """
        return self._threads.fork(self._host, thread_id, at)

    async def run(
        self,
        agent: Agent[OutputT],
        prompt: str | Sequence[UserInputItem],
        *,
        services: Mapping[ServiceKey[Any], object] | None = None,
        on_request: Answerer | None = None,
        on_event: Callable[[Event], None] | None = None,
        **overrides: Unpack[ThreadOptions],
    ) -> RunResult[OutputT]:
        """Run an agent for one turn, in a new thread.

        Args:
            services: Services for this run only.
            on_request: Answers approvals and other requests. Without it requests get their unattended answer; approvals are
                denied.
            on_event: Called with every event.
            overrides: Fields of ``Settings`` to replace, and other arguments of :meth:`start_thread`.

        Raises:
            CodexError: The thread could not be started. Errors of the turn are in the result.
        """
        thread = await self.start_thread(agent=agent, services=services, **overrides)
        following = None if on_event is None else asyncio.ensure_future(thread.events(answers=False).each(on_event))
        try:
            result: RunResult[OutputT] = await thread.run(prompt, on_request=on_request)
        finally:
            await thread.shutdown()
            if following is not None:
                await following
        return result

    async def reload_user_config(self) -> Sequence[str]:
        """Read the user's ``config.toml`` again, for all threads with their children, and for later threads.

        A running thread takes the changes with its next turn. Changes that it cannot apply cause a warning in the thread. The
        op ``reload_user_config`` does the same for one thread.

        Returns:
            Sentences about changes that wait for another kernel.

        Raises:
            ConfigError: The file cannot be used, or does not fit the configuration of one of the threads. Then nothing changes,
                in no thread.
        """
        from codex_framework.threads.reloading import reload_all  # not before the first reload

        running = self.threads
        waiting = await reload_all(self, lambda: [each.conversation for each in running.values()], self._environ)
        self._host = self._host.with_config(self.config)
        return [waiting] if waiting else []

    def latest_thread(self, *, cwd: Path | None = None) -> str | None:
        """Return the id of the newest stored thread.

        With ``cwd``, only threads that were started there count. Raises ThreadError.
        """
        return self._threads.latest(self._host, None if cwd is None else str(cwd))

    def warn(self, text: str, slug: str = "warning") -> None:
        """Send a warning to the clients of all threads. ``slug`` is a heading of ``docs/errors.md``, or one of the plugin's own."""
        self._tell(list(self.threads.values()), text, slug)

    async def aclose(self) -> None:
        """Shut down all threads and close clients, components, sandboxes, proxies and watchers. Safe to call twice.

        If a plugin fails to close something in time, a warning is added to ``kernel.registry.warnings``.
        """
        for thread in list(self.threads.values()):
            await thread.shutdown()
        self._stalls.close()
        await self._background.aclose()
        problems = [*await self._components.aclose(), *await self._state.aclose()]
        self.registry = self.registry.with_problems(problems)
        late, _ = await asyncio.gather(close_all(*self._host.objects_to_close()), self._broadcast.close())
        self._host.programs.close()
        self.registry = self.registry.with_problems(late).with_warnings(self._unheard)
        self._unheard.clear()

    # Parts

    async def _start_components(self) -> None:
        out: set[str] = set()
        self._stalls.enter()
        try:
            failed = await self._components.start(self._context)
            if failed:
                self.registry = self.registry.without(failed)
                out = {report.name for report in self.registry.reports if report.status is PluginStatus.FAILED}
                self.registry.check_safeguards(out)
        except BaseException:
            await self.aclose()
            raise
        finally:
            self._stalls.leave()
        if out:
            self._components.leave_out(out)
            self._broadcast.withdraw(out)
            self._make_parts()

    def _make_parts(self) -> None:
        """Create the parts that depend on the registry."""
        self._host = Host.of(
            self.registry,
            self.config,
            self._environ,
            broadcast=self._broadcast,
            services=self._services,
            components=self._components,
            kernel=self._context,
            stored=lambda thread_id: load(self._host, thread_id),
            forget=self._threads.forget,
            stalls=self._stalls,
        )

    def _configured(
        self, settings: Settings | None, config: Mapping[str, Any] | None, overrides: Mapping[str, Any]
    ) -> tuple[Host, Settings]:
        """Return the shared parts and the settings for a new thread."""
        host = self._host if config is None else self._host.with_config(overridden(self.config, config, self._environ))
        return host, with_overrides(settings or host.settings, overrides)

    def _context(self, plugin: str) -> KernelContext:
        context = self._contexts.get(plugin)
        if context is None:
            context = self._contexts[plugin] = PluginKernel(
                plugin,
                registry=lambda: self.registry,
                warn=self.warn,
                agent=self.agent,
                resume=self.resume_thread,
                open_model=self._host.open_model,
                services=self._services,
                state=self._state,
                background=self._background,
                broadcast=self._broadcast,
            )
        return context

    def _report(self, thread_id: str, sentence: str) -> None:
        thread = self.threads.get(thread_id)
        self._tell([thread] if thread is not None else list(self.threads.values()), sentence, slug="plugin-failed")

    def _log_stall(self, stall: Stall) -> None:
        """Name a plugin that blocks the event loop. Called on another thread, because nothing else can run."""
        logging.getLogger("codex_framework").warning(stall_warning(stall, self.registry.reports))

    def _tell_stall(self, stall: Stall) -> None:
        """Tell the threads too, now that the loop runs again."""
        self._tell(list(self.threads.values()), stall_warning(stall, self.registry.reports), slug="plugin-failed")

    def _tell(self, listeners: Sequence[Thread], sentence: str, slug: str) -> None:
        """Warn threads. A warning that no thread receives is added to the registry's warnings when the kernel is closed."""
        for listener in listeners:
            listener.warn(sentence, slug)
        if not listeners:
            self._unheard.append(sentence)
