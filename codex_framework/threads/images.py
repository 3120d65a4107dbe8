"""Images that requests leave out of a history, with a text in place of each: a model takes none, or its server has refused them.

A history keeps its images: another model may take them, and the record of a thread does not change. Apart from ``history``: what a
request leaves out is a topic of its own.
"""

from __future__ import annotations

from codex_framework.contract.protocol.items import ContentItem, InputImage, InputText, ResponseItem
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.toolkit.images import images_of, replace_images

__all__ = ["NOT_SEEN", "REFUSED", "LeftOutImages"]

NOT_SEEN = "image content omitted because you do not support image input"
"""What a model that takes no images reads in place of one (Codex's text)."""

REFUSED = "Invalid image"
"""What a model reads in place of an image that its server has refused (Codex's text)."""


class LeftOutImages:
    """Which images of a history are left out of requests.

    Each item is written anew once, and stays the same object from then on, so that what is kept for items of earlier requests stays
    valid.
    """

    _refused: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._written: dict[tuple[int, bool], tuple[ResponseItem, ResponseItem, bytes]] = {}

    def __bool__(self) -> bool:
        """Return whether a server has refused an image."""
        return bool(self._refused)

    def refuse(self, item: ResponseItem) -> int:
        """Leave the images of an item out from now on, and return how many these are. Those left out already do not count."""
        new = [image.image_url for image in images_of(item) if image.image_url not in self._refused]
        self._refused = self._refused.union(new)
        self._written.clear()
        return len(new)

    def forget_items(self) -> None:
        """Forget how items were written, because the history has other ones now. Refused images stay refused."""
        self._written.clear()

    def rewritten(self, item: ResponseItem, *, sees: bool) -> tuple[ResponseItem, bytes] | None:
        """Return an item as requests contain it, with its encoding, or None if nothing is left out of it.

        Args:
            sees: Whether the model takes images.
        """
        known = self._written.get((id(item), sees))
        if known is not None and known[0] is item:
            return known[1:]
        if all(sees and image.image_url not in self._refused for image in images_of(item)):
            return None
        shown = replace_images(item, lambda image: self._shown_part(image, sees=sees))
        found = item, shown, encode_item(shown)
        self._written[id(item), sees] = found
        return found[1:]

    def _shown_part(self, image: InputImage, *, sees: bool) -> ContentItem:
        if image.image_url in self._refused:
            return InputText(REFUSED)
        return image if sees else InputText(NOT_SEEN)
