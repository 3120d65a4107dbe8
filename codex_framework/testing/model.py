"""A model with scripted replies, in process and without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from codex_framework.contract.roles.models import ModelEvent, ModelInfo, ModelProvider, ModelRequest, ProviderInfo
from codex_framework.testing.scripted import ReplySource, Script, play_reply

__all__ = ["ScriptedModel"]


class ScriptedModel(ModelProvider):
    """A :class:`~codex_framework.ModelProvider` that is also its own client. All clients share one script.

    Args:
        replies: The answers, in order: replies, or functions from :class:`~codex_framework.ModelRequest` to a reply.
        name: The ``wire_api`` word, and the id of its one built-in provider.
        repeat_last: Whether to repeat the last reply forever instead of failing after it.
        models: The models that it knows, by slug.

    Attributes:
        requests: All requests, in order.
    """

    def __init__(
        self,
        replies: Iterable[ReplySource],
        *,
        name: str = "scripted",
        repeat_last: bool = False,
        models: Mapping[str, ModelInfo] | None = None,
    ) -> None:
        self.name = name
        self.builtin: Mapping[str, ProviderInfo] = {name: ProviderInfo(id=name, name=name, wire_api=name)}
        self.requests: list[ModelRequest] = []
        self._script = Script(replies, repeat_last=repeat_last)
        self._models = dict(models or {})

    def add(self, *replies: ReplySource) -> None:
        """Append replies."""
        self._script.add(replies)

    @property
    def unplayed(self) -> int:
        """The number of replies that were not requested yet."""
        return max(len(self._script.replies) - self._script.asked, 0)

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ScriptedModel:  # noqa: ARG002  # the role's signature
        """Return the model itself."""
        return self

    def model(self, slug: str) -> ModelInfo | None:
        """Return the entry of ``models``."""
        return self._models.get(slug)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Play the next reply.

        Raises:
            ModelError: The reply says so, or the script has ended.
        """
        self.requests.append(request)
        number, source = self._script.next()
        reply = source(request) if callable(source) else source
        async for event in play_reply(reply, number):
            yield event

    async def aclose(self) -> None:
        """Do nothing, because there are no resources."""
