"""Images that requests leave out of a history, with a text in place of each: a model takes none, or its server has refused them.

A history keeps its images: another model may take them, and the record of a thread does not change. Apart from
``history``: omissions of requests are a separate topic.
"""

from __future__ import annotations

from codex_framework.contract.protocol.items import ContentItem, InputImage, InputText, ResponseItem
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.toolkit.images import images_of, replace_images

__all__ = ["NOT_SEEN", "REFUSED", "LeftOutImages"]

NOT_SEEN = "image content omitted because you do not support image input"
"""The text for a model that takes no images, instead of an image (Codex's text)."""

REFUSED = "Invalid image"
"""The text for a model, instead of an image that its server has refused (Codex's text)."""


class LeftOutImages:
    """The images of a history that requests leave out.

    Each item is rewritten once and is the same object from then on, so that cached data about items of earlier requests stays
    valid.
    """

    _refused: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._written: dict[tuple[int, bool], tuple[ResponseItem, ResponseItem, bytes]] = {}

    def __bool__(self) -> bool:
        """Return whether a server has refused an image."""
        return bool(self._refused)

    def refuse(self, item: ResponseItem) -> int:
        """Leave out the images of an item from now on, and return the number of newly omitted images."""
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
