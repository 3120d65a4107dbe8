"""The requests of a turn to the model, and the parts of the history that they leave out."""

from __future__ import annotations

from collections.abc import Sequence

from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.events.thread import HistoryLossEvent
from codex_framework.contract.protocol.items import ResponseItem, begins_turn
from codex_framework.contract.roles.models import LeftOut, ModelRequest
from codex_framework.threads.history import HistoryPrompt
from codex_framework.threads.turn.scope import TurnScope
from codex_framework.toolkit.images import images_of

__all__ = ["draft_request", "drop_refused_images", "next_request", "report_loss"]


def next_request(scope: TurnScope) -> ModelRequest:
    """Return the next request of a turn, with the current history."""
    return _request(scope, scope.conversation.journal.history.prompt())


def draft_request(scope: TurnScope, items: Sequence[ResponseItem] | None, *, tools: bool) -> ModelRequest:
    """Return a request with other items."""
    history = scope.conversation.journal.history
    request = _request(scope, history.prompt() if items is None else history.prompt_of(items))
    return request if tools else request.evolve(tools=(), parallel_tool_calls=False)


def _request(scope: TurnScope, prompt: HistoryPrompt) -> ModelRequest:
    model, settings, telemetry = scope.model, scope.settings, scope.reports.telemetry
    meta = scope.conversation.meta
    prompt = _with_images(scope, prompt)
    if not scope.conversation.origins.is_pure(scope.provider.id):
        prompt = _for_provider(scope, prompt)
    return ModelRequest(
        model=model,
        instructions=scope.instructions,
        prompt=prompt,
        tools=scope.router.specs,
        parallel_tool_calls=model.parallel_tool_calls,
        cache_key=scope.thread_id,
        thread_id=scope.thread_id,
        turn_id=scope.turn_id,
        output_schema=scope.schema,
        reasoning_effort=settings.reasoning_effort or model.default_effort,
        reasoning_summary=settings.reasoning_summary,
        verbosity=settings.verbosity or model.verbosity,
        service_tier=settings.service_tier,
        metadata={"originator": meta.originator, "source": meta.source},
        client_metadata=scope.facts.client_metadata,
        measure=telemetry.report_event if telemetry.measures else None,
    )


def _for_provider(scope: TurnScope, prompt: HistoryPrompt) -> HistoryPrompt:
    """Return a prompt without what only another provider can use, and report how much that is."""
    carried = prompt.for_provider(scope.provider.id)
    if count := len(prompt.items) - len(carried.items):
        report_loss(scope, LeftOut("reasoning", count, "only the provider that wrote it can use it"))
    return carried


def _with_images(scope: TurnScope, prompt: HistoryPrompt) -> HistoryPrompt:
    """Return a prompt with the images that the model takes and its server does not refuse."""
    history, sees = scope.conversation.journal.history, scope.model.supports_images
    if not history.items_with_images or (sees and not history.images):
        return prompt
    if not sees:
        count = sum(len(list(images_of(item))) for item in history.items_with_images)
        report_loss(scope, LeftOut("images", count, "the model takes none"))
    return prompt.without(history.images, sees=sees)


def drop_refused_images(scope: TurnScope) -> bool:
    """Leave out the images of the newest item with images from now on, because the server has refused a request.

    Returns:
        Whether the request can be sent again without them. It cannot if there is no image left, or if the images are in the last
        message of the user, who then should send another one.
    """
    history = scope.conversation.journal.history
    for item in reversed(history.items_with_images):
        count = history.images.refuse(item)
        if count:
            report_loss(scope, LeftOut("images", count, "the server refuses them as invalid"))
            return item is not next(filter(begins_turn, reversed(history.items)), None)
    return False


def report_loss(scope: TurnScope, loss: LeftOut, provider: str = "", model: str = "") -> None:
    """Report that a request does not carry a part of the history, once per thread, cause and provider."""
    provider, model = provider or scope.provider.id, model or scope.model.slug
    cause, conversation = (loss.what, loss.reason, provider), scope.conversation
    if cause in conversation.losses:
        return
    conversation.losses |= {cause}
    what = f"{loss.what} ({loss.count}), because {loss.reason}"
    text = f"left out of requests to `{model}` of the provider `{provider}`: {what}"
    scope.emit(WarningEvent(text, slug="history-loss"))
    scope.emit(HistoryLossEvent(loss.what, loss.count, loss.reason, provider, model))
