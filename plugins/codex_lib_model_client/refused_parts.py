"""Parts of requests that a server has refused. A thread continues without them, and warns once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.items import InputText, ResponseItem
from codex_framework.contract.roles.models import ModelEvent, ModelRequest, ModelWarning
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.toolkit.images import images_of, replace_images

__all__ = ["RefusedParts", "SentTools", "without_images"]

SentTools = Callable[[ModelRequest], Sequence[Sequence[ToolSpec]]]
"""Returns the tools of a request in the form of its body, with grouped tools adjacent."""

_THREADS = 1024
"""How many threads are remembered. The servers of others refuse once more."""


class RefusedParts:
    """The request parts that a server has refused: tools of threads, and images and long call ids for models.

    Args:
        images: Whether the models of the server take images, as far as known.
        sent_tools: The tools in the form of the API.
        short_ids: Receives the models that accept only call ids with nine letters and digits, if the writer of the bodies
            supports it.
    """

    def __init__(self, sent_tools: SentTools, *, images: bool = True, short_ids: set[str] | None = None) -> None:
        self._images = images
        self._short_ids = short_ids
        self._sent_tools = sent_tools
        self._text_models: set[str] = set()
        self._tools: dict[str, frozenset[str]] = {}
        self._kept: dict[str, tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]] = {}

    def reduced_request(self, request: ModelRequest) -> ModelRequest:
        """Return a request without its refused parts. Without refused parts, it is returned unchanged."""
        if request.model.supports_images and not (self._images and request.model.slug not in self._text_models):
            request = request.evolve(model=request.model.evolve(supports_images=False))
        if refused := self._tools.get(request.thread_id):
            known = self._kept.get(request.thread_id)
            if known is None or known[0] is not request.tools:
                kept = tuple(tool for tool in request.tools if tool.name not in refused)
                known = self._kept[request.thread_id] = request.tools, kept
            request = request.evolve(tools=known[1])
        return request

    def note_refusal(self, request: ModelRequest, error: ModelError) -> list[ModelEvent] | None:
        """Record which part of a request a server has refused.

        Args:
            request: The request that was sent.

        Returns:
            The warnings, if the request can be sent again without that part; otherwise None.
        """
        from codex_lib_model_client.faults import ImagesRefusedError, LongIdsRefusedError
        from codex_lib_model_client.refused_tools import refused_tool

        if isinstance(error, ImagesRefusedError):
            if not request.model.supports_images or not any(
                next(images_of(item), None) for item in request.prompt.items
            ):
                return None
            self._text_models.add(request.model.slug)
            return []
        if isinstance(error, LongIdsRefusedError):
            if self._short_ids is None or request.model.slug in self._short_ids:
                return None
            self._short_ids.add(request.model.slug)
            return []
        tool = refused_tool(error, self._sent_tools(request))
        if tool is None:
            return None
        self._kept.pop(request.thread_id, None)
        self._tools[request.thread_id] = self._tools.pop(request.thread_id, frozenset()) | {tool.name}
        if len(self._tools) > _THREADS:
            oldest = next(iter(self._tools))
            del self._tools[oldest]
            self._kept.pop(oldest, None)
        return [
            ModelWarning(f"the server refuses the tool `{tool.name}`, so the thread continues without it: {error.fact}")
        ]


def without_images(item: ResponseItem) -> ResponseItem:
    """Return an item with a note in place of each of its images."""
    from codex_lib_model_client.message_texts import part_text

    return replace_images(item, lambda image: InputText(part_text(image)))
