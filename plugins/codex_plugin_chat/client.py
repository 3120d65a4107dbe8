"""The client: asks for responses and streams their events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_framework import ModelError
from codex_lib_model_client.message_client import MessageClient

if TYPE_CHECKING:
    from codex_lib_model_client.functions import Projection
    from codex_plugin_chat.reply import Reply

__all__ = ["ChatClient"]


class ChatClient(MessageClient):
    """The client of one server, with the bodies of a ``BodyWriter``."""

    path = "/chat/completions"
    noun = "chat completion"
    last = "[DONE]"
    rest_s = 5.0

    def reply(self, projection: Projection) -> Reply:
        """Return a new reply, for one response."""
        from codex_plugin_chat.reply import Reply

        return Reply(projection)

    def load_reading(self) -> None:
        """Import the modules that only a response needs."""
        import codex_plugin_chat.reply  # noqa: F401  # imported ahead of use

    def known_fault(self, status: int | None, code: str, message: str) -> ModelError | None:
        """Return the error for a failure with words specific to servers of this API, or None."""
        from codex_plugin_chat.faults import recognised

        return recognised(status, code, message)

    def kind(self, data: str) -> str:
        """Return the kind of a chunk, for telemetry."""
        if data.startswith("[DONE]"):
            return "done"
        for name in ("tool_calls", "reasoning", "content"):
            if f'"{name}' in data:
                return f"chat.completion.chunk.{name}.delta"
        return "chat.completion.usage" if '"usage":{' in data else "chat.completion.chunk"
