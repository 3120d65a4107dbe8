"""A model provider that answers with what it was told. It needs no key and no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from codex_framework import (
    Completed,
    InputText,
    ItemDone,
    Message,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    OutputText,
    ProviderInfo,
)

__all__ = ["Echo", "EchoClient"]

WIRE_API = "template-echo"


class EchoClient:
    """One conversation's connection; here there is nothing to connect to."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer the newest message of the user."""
        said = ""
        for item in request.prompt.items:
            if isinstance(item, Message) and item.role == "user":
                said = "".join(part.text for part in item.content if isinstance(part, InputText))
        yield ItemDone(Message("assistant", (OutputText(f"{self._prefix}{said}"),)))
        yield Completed("response-1")

    async def aclose(self) -> None:
        """Nothing to close."""


class Echo:
    """The kind of provider; ``wire_api`` in a ``[model_providers.<id>]`` table chooses it."""

    name = WIRE_API
    builtin: Mapping[str, ProviderInfo] = {WIRE_API: ProviderInfo(id=WIRE_API, name="Echo", wire_api=WIRE_API)}

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> EchoClient:
        """Make a client. ``prefix`` in the provider's table changes what the answer begins with."""
        del env  # where a provider would look for its key
        return EchoClient(str(info.options.get("prefix", "You said: ")))

    def model(self, slug: str) -> ModelInfo | None:
        """Know every model: none of them matters here."""
        return ModelInfo(slug=slug)
