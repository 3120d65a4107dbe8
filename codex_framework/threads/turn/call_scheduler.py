"""Decides which calls of a turn may overlap if plugins call tools in addition to the model.

:mod:`codex_framework.threads.turn.machine` orders the calls of the model among each other. Here, a call that a plugin makes
waits for the calls that it must not overlap with, and calls of the model wait for calls of plugins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property

__all__ = ["CallScheduler", "CallSlot"]


class CallSlot:
    """The slot in which one call runs.

    Args:
        overlaps: Returns whether the call may overlap with other such calls.
        plugin: The plugin of the tool.
        caller: The plugin that makes the call, or None for the model.
        within: The id of the call whose tool makes it, if one does.

    Attributes:
        pending: The number of calls that its tool is making.
        ancestors: The running calls whose tools make it, the nearest first.
        admitted: Done once it may run.
    """

    def __init__(
        self, call_id: str, overlaps: Callable[[], bool], plugin: str, caller: str | None, within: str | None
    ) -> None:
        self.call_id = call_id
        self.plugin = plugin
        self.caller = caller
        self.within = within
        self.pending = 0
        self.ancestors: list[CallSlot] = []
        self.admitted: asyncio.Future[None] | None = None
        self._overlaps = overlaps

    @cached_property
    def parallel(self) -> bool:
        """Whether it may overlap with other such calls. Asked only if another call could be in its way."""
        return self._overlaps()

    def must_wait_for(self, other: CallSlot) -> bool:
        """Return whether it must not overlap with another call that runs or is to run before it."""
        if self.caller is None and other.caller is None:
            return False  # in order already
        return not (self.parallel and other.parallel)


class CallScheduler:
    """The running and waiting calls of a turn: first come, first served.

    A call never waits for the call whose tool makes it. If that call is parallel, other calls do not wait for it either,
    because it only waits itself. Parallel tools of the plugin that makes a call do not delay the call, because they may wait
    for it. So all calls that a call waits for can proceed independently.
    """

    def __init__(self) -> None:
        self._running: list[CallSlot] = []
        self._waiting: list[CallSlot] = []

    async def enter(self, slot: CallSlot) -> None:
        """Wait until a call may run. It keeps its slot until :meth:`leave`."""
        slot.ancestors = self._ancestors(slot)
        for ancestor in slot.ancestors:
            ancestor.pending += 1
        slot.admitted = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        self._admit()
        if not slot.admitted.done():
            try:
                await slot.admitted
            except asyncio.CancelledError:
                self.leave(slot)
                raise

    def leave(self, slot: CallSlot) -> None:
        """Give up the slot of a call that has ended, or that no longer waits."""
        (self._running if slot in self._running else self._waiting).remove(slot)
        for ancestor in slot.ancestors:
            ancestor.pending -= 1
        self._admit()

    def _admit(self) -> None:
        """Let those run that may, in the order in which they came."""
        ahead: list[CallSlot] = []
        for slot in list(self._waiting):
            if slot.admitted is not None and not slot.admitted.done() and self._may_run(slot, ahead):
                self._waiting.remove(slot)
                self._running.append(slot)
                slot.admitted.set_result(None)
            else:
                ahead.append(slot)

    def _may_run(self, slot: CallSlot, ahead: list[CallSlot]) -> bool:
        ancestors = self._ancestors(slot)
        if any(slot.must_wait_for(other) for other in self._running if self._delays(other, slot, ancestors)):
            return False
        return not any(slot.must_wait_for(other) and not self._waits_for(other, ancestors) for other in ahead)

    def _waits_for(self, waiting: CallSlot, running: list[CallSlot]) -> bool:
        """Return whether a call waits for the end of one of these, which do not end before the call that they make."""
        return any(not each.parallel and each not in self._ancestors(waiting) for each in running)

    def _delays(self, running: CallSlot, slot: CallSlot, ancestors: list[CallSlot]) -> bool:
        """Return whether a call that runs can delay another one."""
        if running in ancestors:
            return False
        is_own = running.caller is None and running.plugin == slot.caller
        return not ((running.pending or is_own) and running.parallel)

    def _ancestors(self, slot: CallSlot) -> list[CallSlot]:
        found: list[CallSlot] = []
        within = slot.within
        while within is not None:
            parent = next((each for each in self._running if each.call_id == within and each not in found), None)
            if parent is None:
                break
            found.append(parent)
            within = parent.within
        return found
