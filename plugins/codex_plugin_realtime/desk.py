"""The realtime conversations of one kernel, and their description for the model. Imported at every start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from codex_framework import ContextSource, Fragment, TurnFacts

if TYPE_CHECKING:
    from codex_framework import ThreadContext
    from codex_plugin_realtime.conversation import Conversation

__all__ = ["Desk", "RealtimeContext"]

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

_ACTIVE = {"realtime_active": True}
_INACTIVE = {"realtime_active": False}
"""Codex writes the field for every turn."""


class Desk:
    """The conversations, by thread.

    Attributes:
        environ: The kernel's environment variables.
        open: The conversations that were started and have not ended, by the id of their thread.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.open: dict[str, Conversation] = {}

    def is_active(self, thread_id: str) -> bool:
        """Return whether a thread has a conversation that is connected."""
        conversation = self.open.get(thread_id)
        return conversation is not None and conversation.is_active

    def begin(self, thread: ThreadContext, conversation: Conversation) -> None:
        """Take a conversation of a thread in, in the place of an earlier one. It ends with the thread at the latest."""
        self.open[thread.id] = conversation
        thread.state("realtime", lambda: _Last(self, thread.id))
        thread.background(conversation.run(), name="realtime conversation")

    def forget(self, conversation: Conversation) -> None:
        """Take a conversation out that is over."""
        for thread_id, each in list(self.open.items()):
            if each is conversation:
                del self.open[thread_id]


class _Last:
    """The remaining work when a thread ends."""

    def __init__(self, desk: Desk, thread_id: str) -> None:
        self._desk = desk
        self._thread_id = thread_id

    async def aclose(self) -> None:
        """Forget the thread's conversation, which may not even have begun."""
        conversation = self._desk.open.get(self._thread_id)
        if conversation is not None:
            conversation.give_up()


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
            text = _mark_text(own if isinstance(own, str) and own.strip() else _BEGUN)
        yield Fragment(
            role="developer",
            text=text,
            start=_START,
            end=_END,
            order=57,
            revocation=_mark_text(_ENDED),
            recorded=_ACTIVE if is_active else _INACTIVE,
        )


def _mark_text(text: str) -> str:
    return f"{_START}\n{text}\n{_END}"
