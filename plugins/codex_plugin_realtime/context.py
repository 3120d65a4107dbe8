"""The context source ``realtime``: what the model is told when a realtime conversation begins and ends."""

from __future__ import annotations

from collections.abc import Iterator

from codex_framework import ContextSource, Fragment, TurnFacts
from codex_plugin_realtime.desk import Desk

__all__ = ["RealtimeContext"]

_START, _END = "<realtime_conversation>", "</realtime_conversation>"

_BEGUN = """\
The user now talks to a voice assistant, which stands between you and the user. It passes requests on to you, and what you write goes
to the assistant, which decides what it says aloud of it.

- A request comes in <realtime_delegation>: <input> is what you are asked to do, and <transcript_delta> is what was said since the last
  request. It was transcribed from speech, so words may be wrong and punctuation may be missing. Go by what was probably meant.
- The assistant may pass on what needs no work of yours. Then answer in one sentence.
- Write short, plain sentences that can be spoken. Say what you found or did and what is open, and leave out code, tables and long
  paths unless the user asks for them."""

_ENDED = """\
The voice conversation is over. The user types again and reads your answers directly, so spelling and punctuation are the user's own,
and your answers may be as detailed as usual."""


class RealtimeContext(ContextSource):
    """Tells the model of the beginning and the end of a conversation.

    Args:
        desk: The conversations.
    """

    name = "realtime"

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield the instructions for a conversation. The end of one is told where its beginning is in the history."""
        is_active = self._desk.is_active(facts.thread_id)
        text = ""
        if is_active:
            own = facts.config.get("experimental_realtime_start_instructions")
            text = _marked(own if isinstance(own, str) and own.strip() else _BEGUN)
        yield Fragment(
            role="developer",
            text=text,
            start=_START,
            end=_END,
            order=57,
            revocation=_marked(_ENDED),
            recorded=_ACTIVE if is_active else _INACTIVE,
        )


_ACTIVE = {"realtime_active": True}
_INACTIVE = {"realtime_active": False}
"""Codex writes the field for every turn, and reads it when a session is resumed."""


def _marked(text: str) -> str:
    return f"{_START}\n{text}\n{_END}"
