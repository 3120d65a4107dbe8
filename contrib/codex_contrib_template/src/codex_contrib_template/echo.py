"""A model provider that repeats the user's message. It needs no key and no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from codex_framework import (
    Completed,
    InputText,
    ItemDone,
    Message,
    ModelEvent,
    ModelInfo,
    ModelProvider,
    ModelRequest,
    OutputText,
    ProviderInfo,
)

__all__ = ["Echo", "EchoClient"]

WIRE_API = "template-echo"


class EchoClient:
    """A client, which all threads of a kernel share. It keeps nothing of a conversation; each request contains all of it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer the newest user message."""
        text = ""
        for item in request.prompt.items:
            if isinstance(item, Message) and item.role == "user":
                text = "".join(part.text for part in item.content if isinstance(part, InputText))
        yield ItemDone(Message("assistant", (OutputText(f"{self._prefix}{text}"),)))
        yield Completed("response-1")

    async def aclose(self) -> None:
        """Do nothing, because there is no connection."""


class Echo(ModelProvider):
    """The provider, which ``wire_api`` in a ``[model_providers.<id>]`` table selects."""

    name = WIRE_API
    builtin: Mapping[str, ProviderInfo] = {WIRE_API: ProviderInfo(id=WIRE_API, name="Echo", wire_api=WIRE_API)}

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> EchoClient:
        """Return a client. ``prefix`` in the provider's table changes the beginning of the answer.

        Raises:
            ModelError: A key of the table is unknown, or its value is of the wrong type.
        """
        from codex_lib_model_client.addresses import COMMON_OPTIONS, check_options
        from codex_lib_model_client.table import OptionReader

        del env  # other providers would read their key from it
        check_options(info, COMMON_OPTIONS | {"prefix"})
        return EchoClient(OptionReader(info).text("prefix", "You said: "))

    def model(self, slug: str) -> ModelInfo | None:
        """Return the facts about a model. Every name is accepted."""
        return ModelInfo(slug=slug)
