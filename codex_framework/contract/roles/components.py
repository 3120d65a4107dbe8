"""The role of a component, which lives as long as the kernel, or as long as one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.outcomes import Outcome
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.threads import KernelContext, ThreadContext, TurnContext
from codex_framework.contract.roles.tools import Tool

__all__ = ["Component", "ThreadComponent"]


class ThreadComponent:
    """A part of one thread, created by :meth:`Component.for_thread`.

    Attributes:
        required: Whether turns fail if this part has not started.
        ready_timeout_s: How long the first sample waits for :meth:`start`, in seconds.
    """

    required: bool = False
    ready_timeout_s: float = 30.0

    async def start(self) -> None:
        """Prepare the part, in the background. The first sample waits until this returns.

        An exception becomes a warning. If the part is required, the turn fails, and the next turn tries again.
        """

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # for those who override it
        """Return the part's tools. Called at the start of a turn, and before a sample after ``tools_changed()``. Keep it cheap."""
        return ()

    def reconfigured(self) -> bool:
        """Return whether this part can continue with the changed ``thread.config``. Called before a turn. Keep it cheap.

        If it returns False, :meth:`Component.for_thread` creates another part, which is used from this turn on, and this part
        is closed. If ``for_thread`` fails, this part stays.
        """
        return True

    def has_turn_work(self, turn: TurnFacts) -> bool:  # noqa: ARG002  # as above
        """Return whether :meth:`before_calls` or :meth:`turn_ended` has anything to do now.

        Checked just before each of the two methods. With False, the method is not called, which saves an asyncio task. Keep it
        cheap.
        """
        return True

    async def before_calls(self, turn: TurnContext) -> None:
        """Run during the first response of a turn. The first tool call of the turn waits for it, at most 30 s.

        If the part is created in the middle of a turn, the caller that requested the part waits instead.
        """

    async def turn_ended(self, turn: TurnContext, outcome: Outcome) -> None:
        """Run after a turn or task, before clients see its end; at most 5 s."""

    async def idle(self) -> None:
        """Run when nothing is running and nothing is pending. May deliver items with ``trigger``, which starts a turn."""

    async def aclose(self) -> None:
        """Release all resources. May be called twice."""


class Component:
    """A part of the kernel: a server, a pool, a store, or services for other plugins.

    Attributes:
        name: Short and unique.
        provides: Keys of the services that :meth:`start` returns.
        requires: Keys of the services that must be available before :meth:`start`.
        required: Whether ``Kernel.create`` fails if this part does not start. It always fails if the plugin, or one that
            requires it, offers safeguards: command policies, approval reviewers, interceptors, sandboxes or network proxies.
        start_timeout_s: Time limit of :meth:`start`, in seconds.
        close_timeout_s: Time limit of :meth:`aclose`, in seconds.
        part_when: When a thread gets its part. ``start``: when it is created. ``use``: when something asks for the part with
            ``await thread.part(kind)`` or ``thread.component(kind)``; this requires :attr:`part_class`.
        part_entries: For ``use``: kinds of the plugin's entries, and names of extra metadata. A resumed or forked thread with
            one of them gets its part when it is created.
        part_class: The class of the parts that :meth:`for_thread` returns. A property can import it late.
        part_in_children: For ``use``: whether spawned threads get their part when they are created.
    """

    name: ClassVar[str] = ""
    provides: ClassVar[Sequence[ServiceKey[Any]]] = ()
    requires: ClassVar[Sequence[ServiceKey[Any]]] = ()
    part_when: ClassVar[Literal["start", "use"]] = "start"
    part_entries: ClassVar[Sequence[str]] = ()
    part_in_children: ClassVar[bool] = False
    part_class: type[ThreadComponent] | None = None
    required: bool = False
    start_timeout_s: float = 30.0
    close_timeout_s: float = 5.0

    async def start(self, kernel: KernelContext) -> Mapping[ServiceKey[Any], object] | None:  # noqa: ARG002  # as above
        """Start the component, after the components that provide its required services. Components start concurrently.

        Returns:
            The services named in ``provides``.

        Raises:
            ConfigError: The configuration is invalid. If the component is required, ``Kernel.create`` raises this error itself.
        """
        return None

    def shared_tools(self, turn: TurnFacts) -> Sequence[Tool]:  # noqa: ARG002  # as above
        """Return the component's tools for a turn, which all threads share: the same objects whenever the answer is the same.

        Called at the start of a turn, and before a sample after ``tools_changed()``. It must have no side effects. A tool gets
        the part of its thread from the call: ``await context.part(kind)``.
        """
        return ()

    def for_thread(self, thread: ThreadContext) -> ThreadComponent | None:  # noqa: ARG002  # as above
        """Return this component's part of a thread, or None for no part.

        Called when the thread is created, before its first event, or at the first use of the part (:attr:`part_when`); and
        before a turn, if the thread's configuration has changed and :meth:`ThreadComponent.reconfigured` returned False, or if
        the part that should have been created with the thread is missing.
        """
        return None

    async def aclose(self) -> None:
        """Release all resources, after all threads have ended. Also called after a failed start. May be called twice."""
