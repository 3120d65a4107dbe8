"""The realtime conversations of one kernel. Imported at every start: it holds nothing but a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_framework import ThreadContext
    from codex_plugin_realtime.conversation import Conversation

__all__ = ["KEYS", "Desk"]

KEYS = (
    "realtime",
    "experimental_realtime_ws_base_url",
    "experimental_realtime_webrtc_call_base_url",
    "experimental_realtime_ws_model",
    "experimental_realtime_ws_backend_prompt",
    "experimental_realtime_ws_startup_context",
    "experimental_realtime_start_instructions",
)
"""The settings of Codex that this plugin reads."""


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
    """What is left to do when a thread ends."""

    def __init__(self, desk: Desk, thread_id: str) -> None:
        self._desk = desk
        self._thread_id = thread_id

    async def aclose(self) -> None:
        """Forget the thread's conversation, which may not even have begun."""
        conversation = self._desk.open.get(self._thread_id)
        if conversation is not None:
            conversation.give_up()
