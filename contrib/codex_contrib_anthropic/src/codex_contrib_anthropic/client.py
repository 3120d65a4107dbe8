"""The client: asks for responses and streams their events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codex_framework import ModelError
from codex_framework.toolkit.model_server.message_client import MessageClient

if TYPE_CHECKING:
    from codex_contrib_anthropic.reply import Reply
    from codex_framework.toolkit.model_server.functions import Projection

__all__ = ["MessagesClient"]

_KIND = re.compile(r'"type"\s*:\s*"([a-z_.]+)"')


class MessagesClient(MessageClient):
    """The client of one server, with the bodies of a ``BodyWriter``."""

    path = "/messages"
    noun = "message"
    last = '{"type":"message_stop"}'
    sent_headers = ("originator", "user-agent")  # the others are only for OpenAI

    def reply(self, projection: Projection) -> Reply:
        """Return a new reply, for one response."""
        from codex_contrib_anthropic.reply import Reply

        return Reply(projection)

    def load_reading(self) -> None:
        """Import the modules that only a response needs."""
        import codex_contrib_anthropic.reply  # noqa: F401  # imported ahead of use

    def known_fault(self, status: int | None, code: str, message: str) -> ModelError | None:
        """Return the error for a failure that servers with this API have words of their own for, or None."""
        from codex_contrib_anthropic.faults import recognised

        return recognised(status, code, message)

    def kind(self, data: str) -> str:
        """Return the kind of an event, for telemetry."""
        found = _KIND.search(data)
        return "unknown" if found is None else found[1]
