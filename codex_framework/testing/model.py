"""A model that says what a test tells it to, in process and without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from codex_framework.contract.roles.models import ModelEvent, ModelInfo, ModelProvider, ModelRequest, ProviderInfo
from codex_framework.testing.scripted import ReplySource, Script, play_reply

__all__ = ["ScriptedModel"]


class ScriptedModel(ModelProvider):
    """A :class:`~codex_framework.ModelProvider` and its clients in one; all its clients share one script.

    Args:
        replies: What to answer, in order: replies, or functions from :class:`~codex_framework.ModelRequest` to a reply.
        name: The ``wire_api`` word, and the id of its one built-in provider.
        repeat_last: Answer with the last reply for ever, instead of failing after it.
        models: What it knows of models, by slug.

    Attributes:
        requests: Every request, in order.
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
        """Add replies behind those that are there."""
        self._script.add(replies)

    @property
    def unplayed(self) -> int:
        """How many replies nobody has asked for."""
        return max(len(self._script.replies) - self._script.asked, 0)

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ScriptedModel:  # noqa: ARG002  # the role's signature
        """The model itself."""
        return self

    def model(self, slug: str) -> ModelInfo | None:
        """What ``models`` says."""
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
        """Nothing is held."""
