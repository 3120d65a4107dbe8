"""The images of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from codex_framework.contract.protocol.items import (
    PACKED,
    ContentItem,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    Message,
    ResponseItem,
)

__all__ = ["images_of", "replace_images"]


def images_of(item: ResponseItem) -> Iterator[InputImage]:
    """Yield the images of an item. A packed item contains no images."""
    return (part for part in _parts(item) if isinstance(part, InputImage))


def replace_images(item: ResponseItem, replacement: Callable[[InputImage], ContentItem]) -> ResponseItem:
    """Return an item with its images replaced. An item without images is returned unchanged."""
    parts = _parts(item)
    if not any(isinstance(part, InputImage) for part in parts):
        return item
    content = tuple(replacement(part) if isinstance(part, InputImage) else part for part in parts)
    return item.evolve(**{"content" if isinstance(item, Message) else "output": content})


def _parts(item: ResponseItem) -> Sequence[ContentItem]:
    """Return the content of an item that may have images."""
    if not isinstance(item, (Message, FunctionCallOutput, CustomToolCallOutput)) or PACKED in item.__dict__:
        return ()
    parts = item.content if isinstance(item, Message) else item.output
    return () if isinstance(parts, str) else parts
