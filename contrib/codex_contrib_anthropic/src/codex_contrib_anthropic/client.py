"""The client: asks for responses and streams their events."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from codex_framework import ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.contract.roles.models import LeftOut
from codex_lib_model_client.message_client import MessageClient

if TYPE_CHECKING:
    from codex_contrib_anthropic.body import BodyWriter
    from codex_contrib_anthropic.reply import Reply
    from codex_lib_model_client.functions import Projection
    from codex_lib_model_client.token_source import TokenSource

__all__ = ["MessagesClient"]

_KIND = re.compile(r'"type"\s*:\s*"([a-z_.]+)"')


class MessagesClient(MessageClient):
    """The client of one server, with the bodies of a ``BodyWriter``."""

    path = "/messages"
    noun = "message"
    last = '{"type":"message_stop"}'
    sent_headers = ("originator", "user-agent")  # the others are only for OpenAI

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        bodies: BodyWriter,
        *,
        tokens: TokenSource | None = None,
    ) -> None:
        super().__init__(info, env, url, headers, bodies, tokens=tokens)
        self._writer = bodies

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Request one response; see :meth:`MessageClient.stream`.

        If the server refuses a part of the history, such as thoughts of another account, it is asked again without that.

        Raises:
            ModelError: The request failed, or the response is broken or incomplete.
        """
        from contextlib import aclosing

        from codex_contrib_anthropic.faults import FindingsRefusedError, ThoughtsRefusedError

        while True:
            try:
                async with aclosing(super().stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except ThoughtsRefusedError:
                if not (count := self._writer.leave_out_thoughts(request)):
                    raise
                loss = LeftOut("reasoning", count, "the server refuses its signatures")
            except FindingsRefusedError:
                if not (count := self._writer.leave_out_server_blocks(request)):
                    raise
                loss = LeftOut("results of hosted tools", count, "the server refuses them")
            yield loss

    def reply(self, projection: Projection) -> Reply:
        """Return a new reply, for one response."""
        from codex_contrib_anthropic.reply import Reply
        from codex_contrib_anthropic.tools import RequestTools

        if not isinstance(projection, RequestTools):
            return Reply(projection)
        return Reply(projection, joins=projection.searches, links=projection.links)

    def load_reading(self) -> None:
        """Import the modules that only a response needs."""
        import codex_contrib_anthropic.reply  # noqa: F401  # imported ahead of use

    def known_fault(self, status: int | None, code: str, message: str) -> ModelError | None:
        """Return the error for a failure with words specific to servers of this API, or None."""
        from codex_contrib_anthropic.faults import recognised

        return recognised(status, code, message)

    def kind(self, data: str) -> str:
        """Return the kind of an event, for telemetry."""
        found = _KIND.search(data)
        return "unknown" if found is None else found[1]
