"""The modes of all threads. Loaded at each start, so it imports nothing for threads without a chosen mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from codex_framework import Component, ThreadComponent

if TYPE_CHECKING:
    from codex_framework import KernelContext, Outcome, PluginContext, ServiceKey, ThreadContext, TurnContext, TurnFacts
    from codex_plugin_work_modes.choice import Choice
    from codex_plugin_work_modes.modes import ModeRestrictions

__all__ = ["KIND", "ModeComponent", "ThreadMode", "WorkModes"]

KIND = "work_mode"
"""The kind of the entries in a thread's record: ``{"mode": NAME, "configured": NAME}``. The last one counts."""


class WorkModes:
    """The modes of the threads of one kernel, by thread id."""

    def __init__(self) -> None:
        self.threads: dict[str, ThreadMode] = {}

    def of(self, thread_id: str) -> Iterator[ThreadMode]:
        """Yield the modes of a thread and of its ancestors."""
        found = self.threads.get(thread_id)
        while found is not None:
            yield found
            above = found.thread.parent
            found = None if above is None else self.threads.get(above.id)

    def restrictions(self, thread_id: str) -> ModeRestrictions | None:
        """Return the current restrictions from the modes of a thread and its ancestors, or None."""
        permitted: ModeRestrictions | None = None
        for state in self.of(thread_id):
            own = state.restrictions
            if own is not None:
                permitted = own if permitted is None else permitted.within(own)
        return permitted

    def name(self, thread_id: str) -> str:
        """Return the name of the nearest mode that restricts a thread."""
        choices = (state.choice for state in self.of(thread_id) if state.restrictions is not None)
        return next((choice.shown for choice in choices if choice is not None), "build")

    def below(self, thread_id: str) -> Iterator[ThreadMode]:
        """Yield the modes of a thread and of all threads that descend from it."""
        for state in list(self.threads.values()):
            if any(each.thread.id == thread_id for each in self.of(state.thread.id)):
                yield state


class ThreadMode(ThreadComponent):
    """The mode of one thread.

    Attributes:
        thread: The thread.
        choice: The chosen mode. None without a choice and restrictions.
        told: Whether the model knows the restrictions.
        leaves_sessions: Whether commands from a looser mode of the running turn may still run.
    """

    def __init__(self, thread: ThreadContext, modes: WorkModes) -> None:
        self.thread = thread
        self._modes = modes
        self.choice: Choice | None = None
        self.told = False
        self.leaves_sessions = False
        if _has_table(thread.config) or (thread.origin in ("resumed", "forked") and thread.entries(KIND)):
            self.chosen()
        modes.threads[thread.id] = self

    @property
    def restrictions(self) -> ModeRestrictions | None:
        """The current restrictions of the thread's mode. None without restrictions."""
        return None if self.choice is None else self.choice.restrictions

    def chosen(self) -> Choice:
        """Return the choice of a mode, which begins with the configured one."""
        if self.choice is None:
            from codex_plugin_work_modes.choice import Choice

            self.choice = Choice(self.thread, KIND)
        return self.choice

    def below(self) -> Iterator[ThreadMode]:
        """Yield the modes of this thread and of all its descendants."""
        return self._modes.below(self.thread.id)

    def has_turn_work(self, turn: TurnFacts) -> bool:  # noqa: ARG002  # the role's
        """Return whether commands must be ended."""
        return self.leaves_sessions

    async def turn_ended(self, turn: TurnContext, outcome: Outcome) -> None:  # noqa: ARG002  # the role's
        """End the commands that have become sessions since a stricter mode was chosen."""
        if self.leaves_sessions:
            self.leaves_sessions = False
            from codex_framework.contract.protocol.ops import CleanBackgroundTerminals

            await self.thread.submit(CleanBackgroundTerminals())

    async def aclose(self) -> None:
        """Forget the thread. Its children have ended."""
        self._modes.threads.pop(self.thread.id, None)


class ModeComponent(Component):
    """Gives each thread a mode."""

    name = "work_modes"
    required = True

    def __init__(self, modes: WorkModes, plugin: PluginContext) -> None:
        self._modes = modes
        self._plugin = plugin

    async def start(self, kernel: KernelContext) -> Mapping[ServiceKey[Any], object] | None:  # noqa: ARG002  # the role's
        """Check the configured modes. Raises ConfigError if a named mode does not exist."""
        if _has_table(self._plugin.config):
            from codex_plugin_work_modes.modes import Settings, check_names

            check_names(self._plugin.settings(Settings))
        return None

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:
        """Return the mode of a thread."""
        return ThreadMode(thread, self._modes)


def _has_table(config: Mapping[str, Any]) -> bool:
    framework = config.get("framework")
    plugins = framework.get("plugins") if isinstance(framework, Mapping) else None
    return isinstance(plugins, Mapping) and bool(plugins.get("work_modes"))
