"""The two kinds of client: one plays a script, the other a cassette."""

from __future__ import annotations

from collections.abc import AsyncIterator

from codex_framework import ModelEvent, ModelRequest
from codex_framework.testing.scripted import Script, play_reply
from codex_plugin_replay.cassette import Cassette

__all__ = ["CassetteClient", "ScriptClient"]


class ScriptClient:
    """Plays the replies of a script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Play the next reply.

        Raises:
            ModelError: The reply is an error, or the script has ended.
        """
        number, source = self._script.next()
        async for event in play_reply(source(request) if callable(source) else source, number):
            yield event

    async def aclose(self) -> None:
        """Do nothing, because there are no resources."""


class CassetteClient:
    """Plays the answers of a cassette.

    Attributes:
        compacts: Whether the recorded server was asked to compact a conversation.
    """

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self.compacts = cassette.compacts

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Play the answer that was recorded for this request.

        Raises:
            ModelError: The recorded answer is an error, or no answer was recorded.
        """
        exchange = self._cassette.play(request)
        for event in exchange.events:
            yield event
        if exchange.error is not None:
            raise exchange.error

    async def aclose(self) -> None:
        """Do nothing, because there are no resources."""
