"""The op ``set_work_mode``, its event and its handler."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg, Op, OpHandler, ThreadContext, ThreadError
from codex_framework.contract.protocol.ops import CleanBackgroundTerminals
from codex_plugin_work_modes.modes import ModeRestrictions
from codex_plugin_work_modes.state import ThreadMode

__all__ = ["SetWorkMode", "SetWorkModeHandler", "WorkModeChangedEvent"]


class SetWorkMode(Op):
    """Change the work mode of a thread. A stricter mode applies from the next call on, a looser one from the next turn on.

    Attributes:
        mode: ``plan``, ``build``, ``review``, or a mode of the configuration.
    """

    type: ClassVar[Literal["set_work_mode"]] = "set_work_mode"
    mode: str


class WorkModeChangedEvent(EventMsg):
    """The work mode of a thread was changed."""

    type: ClassVar[Literal["work_mode_changed"]] = "work_mode_changed"
    mode: str
    restrictions: ModeRestrictions


class SetWorkModeHandler(OpHandler[SetWorkMode]):
    """Changes the mode. If it permits less, sessions of commands end, of sub-agents too: they were started with more."""

    op = SetWorkMode

    async def handle(self, op: SetWorkMode, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Change the mode.

        Raises:
            ThreadError: There is no such mode.
        """
        state = thread.component(ThreadMode)
        given: object = op.mode
        if not isinstance(given, str):
            raise ThreadError("the work mode is not a text", slug="bad-request", hint="Name a mode.")
        choice = state.chosen()
        mode = choice.named(op.mode)
        narrowed = choice.choose(mode)
        thread.emit(WorkModeChangedEvent(mode.name, mode.restrictions), id=id)
        if narrowed:
            for below in state.below():
                below.leaves_sessions = below.leaves_sessions or below.thread.turn is not None
                await below.thread.submit(CleanBackgroundTerminals())
