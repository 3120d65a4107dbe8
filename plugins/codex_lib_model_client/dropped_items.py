"""Parts of a history that requests leave out, because the API or the model does not support them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from codex_framework.contract.protocol.items import (
    PACKED,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    Message,
    Reasoning,
    ResponseItem,
    UnknownContent,
    UnknownItem,
)
from codex_framework.contract.roles.models import LeftOut
from codex_lib_model_client.private_data import private_data

__all__ = ["Cause", "Losses", "lost_in_messages"]

Cause: TypeAlias = tuple[str, str]
"""A kind of item that is dropped, and the reason as a clause."""


class Losses:
    """The parts that the requests of one thread leave out. Each item is checked once, and each cause is reported once.

    Args:
        lost: Returns the causes for an item, once for each part that is left out.
    """

    def __init__(self, lost: Callable[[ResponseItem], Iterator[Cause]]) -> None:
        self._lost = lost
        self._seen = 0
        self._last: ResponseItem | None = None
        self._told: set[Cause] = set()

    def new(self, items: Sequence[ResponseItem]) -> list[LeftOut]:
        """Return the parts that a request with these items leaves out for a reason that has not been reported yet."""
        if self._seen and (self._seen > len(items) or items[self._seen - 1] is not self._last):
            self._seen = 0  # the history was shortened or replaced
        counts = Counter(cause for item in items[self._seen :] for cause in self._lost(item))
        self._seen, self._last = len(items), items[-1] if items else None
        found = [LeftOut(what, count, why) for (what, why), count in counts.items() if (what, why) not in self._told]
        self._told.update(counts)
        return found


def lost_in_messages(item: ResponseItem, api: str, *, images: bool) -> Iterator[Cause]:
    """Yield the parts that an API with messages and functions does not support.

    Args:
        api: The API, as in the private data of reasoning.
        images: Whether the model takes images.
    """
    match item:
        case Reasoning():
            if private_data(item, api) is None:
                yield "reasoning", "only the API that it came from can use it"
        case UnknownItem():
            yield f"items of kind `{item.kind}`", "the API has none"
        case Message() | FunctionCallOutput() | CustomToolCallOutput():
            if PACKED in item.__dict__:
                return  # it has no images, and reading it takes long
            parts = item.content if isinstance(item, Message) else item.output
            for part in () if isinstance(parts, str) else parts:
                if isinstance(part, InputImage) and not images:
                    yield "images", "the model takes none"
                elif isinstance(part, UnknownContent):
                    yield f"content of kind `{part.raw.get('type')}`", "the API has none"
        case _:
            pass
