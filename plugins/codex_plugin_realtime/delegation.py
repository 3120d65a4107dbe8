"""Requests that the voice model hands off: they become input of the thread, and their end is the end of its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from codex_framework import CodexError, ThreadContext
from codex_framework.contract.protocol.ops import TextInput, UserInputOp
from codex_framework.contract.value import Value
from codex_plugin_realtime.dialogue import joined

__all__ = ["Delegations"]

_TAG = "<realtime_delegation>"
_WAITING = 16
"""How many requests wait for the thread. Then nothing is read from the server until there is room."""


class _Delegation(Value):
    handoff: str
    submission: str
    text: str


class Delegations:
    """The requests of one conversation."""

    def __init__(self, thread: ThreadContext) -> None:
        self._thread = thread
        self._waiting: asyncio.Queue[_Delegation] = asyncio.Queue(_WAITING)
        self._submitted: dict[str, _Delegation] = {}
        self._turn: str | None = None

    async def add(self, handoff: Mapping[str, Any]) -> None:
        """Pass a request to the thread. A request without words is ignored."""
        from uuid import uuid4

        transcript = joined(handoff["active_transcript"])
        text = handoff["input_transcript"] or transcript
        if text:
            await self._waiting.put(_Delegation(handoff["handoff_id"], str(uuid4()), _mark_request(text, transcript)))

    async def run(self) -> None:
        """Submit the requests, in order."""
        while True:
            delegation = await self._waiting.get()
            self._submitted[delegation.submission] = delegation
            try:
                await self._thread.submit(UserInputOp((TextInput(delegation.text),)), id=delegation.submission)
            except CodexError:  # the thread has shut down
                return
            finally:
                self._waiting.task_done()

    async def finished(self, limit_s: float) -> None:
        """Wait until the thread has all requests, but not longer than this."""
        try:
            async with asyncio.timeout(limit_s):
                await self._waiting.join()
        except TimeoutError:
            pass

    # What the thread does with them

    def took_up(self, text: str, turn_id: str) -> bool:
        """Take note that input was recorded. Return whether it is a request of the voice model."""
        if not text.startswith(_TAG):
            return False
        self._turn = turn_id
        found = next((each.submission for each in self._submitted.values() if each.text == text), None)
        if found is not None:
            del self._submitted[found]
        return True

    def refused(self, submission: str) -> str | None:
        """Return the hand-off whose request the thread has refused, or None if it has refused none."""
        delegation = self._submitted.pop(submission, None)
        return None if delegation is None else delegation.handoff

    def ended(self, turn_id: str) -> bool:
        """Take note of the end of a turn. Return whether a request was worked on in it, or began it and was not recorded."""
        began = self._submitted.pop(turn_id, None)
        if began is None and self._turn != turn_id:
            return False
        self._turn = None
        return True


def _mark_request(text: str, transcript: str) -> str:
    said = f"\n  <transcript_delta>{_escape_text(transcript)}</transcript_delta>" if transcript else ""
    return f"{_TAG}\n  <input>{_escape_text(text)}</input>{said}\n</realtime_delegation>"


def _escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
