"""The images of a conversation: which of them a request may have.

An image that may not go is replaced with a note, because the server would refuse the whole request, and every later one as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from codex_contrib_anthropic.pictures import Picture, examined, source
from codex_framework import InputImage, ResponseItem
from codex_framework.contract.roles.models import LeftOut
from codex_framework.toolkit.images import images_of

__all__ = ["Album", "Limits", "reasons"]

_MEGABYTE = 1024 * 1024
_SIDES = 8000
_MANY = 20
_SIDES_OF_MANY = 2000
"""The longest side in pixels, in a request with more than ``_MANY`` images."""

_STEP = 10
"""The number of images that are left out together if there are too many, because the server caches the beginning of requests."""

_FORMAT = "the format is unsupported"


class Limits(NamedTuple):
    """The server's limits for images.

    Attributes:
        image_bytes: The longest image in base64.
        all_bytes: The longest length of all images together, in base64.
        number: The maximum number of images.
    """

    image_bytes: int
    all_bytes: int
    number: int


def reasons(pictures: Sequence[Picture], limits: Limits) -> list[str]:
    """Return for each image why it cannot go, as a clause. Empty means that it can.

    The oldest ones are left out first if there are too many.
    """
    found = [_own_reason(picture, limits) for picture in pictures]
    kept = [place for place, reason in enumerate(found) if not reason]

    def leave_out(count: int, reason: str) -> None:
        for place in kept[:count]:
            found[place] = reason
        del kept[:count]

    leave_out(_surplus(len(kept), limits.number), f"a request may have at most {limits.number} images")
    leave_out(
        _heavy([pictures[place].size for place in kept], limits.all_bytes),
        f"the images of a request may have at most {_format_size(limits.all_bytes)} together",
    )
    large = [place for place in kept if pictures[place].longest > _SIDES_OF_MANY]
    if large and len(kept) > _MANY:
        why = f"with more than {_MANY} images, their sides may have at most {_SIDES_OF_MANY} pixels"
        if large[-1] in kept[-_MANY:]:  # the newer ones matter more than the number
            leave_out(_surplus(len(kept), _MANY), why)
        else:
            for place in large:
                found[place] = why
    return found


def _own_reason(picture: Picture, limits: Limits) -> str:
    if not picture.kind:
        return _FORMAT
    if picture.size > limits.image_bytes:
        return f"an image may have at most {_format_size(limits.image_bytes)}"
    if picture.longest > _SIDES:
        return f"the sides of an image may have at most {_SIDES} pixels"
    return ""


def _surplus(count: int, most: int) -> int:
    """Return how many images to leave out, in whole steps, so that there are no more than ``most``, but at least one."""
    over = count - most
    return min(-(-over // _STEP) * _STEP, count - 1) if over > 0 else 0


def _heavy(sizes: Sequence[int], most: int) -> int:
    """Return how many images to leave out, in steps of a quarter of ``most``, so that the rest is not longer than ``most``."""
    over, step = sum(sizes) - most, max(most // 4, 1)
    goal = -(-over // step) * step
    for place, size in enumerate(sizes):
        if goal <= 0:
            return place
        goal -= size
    return max(len(sizes) - 1, 0)


def _format_size(size: int) -> str:
    return f"{size / _MEGABYTE:.3g} MB of base64"


class Album:
    """The images of one conversation. Each is examined once.

    Args:
        limits: The server's limits.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._told: set[str] = set()
        self._examined: dict[int, tuple[InputImage, Picture]] = {}
        self.forget()

    def forget(self) -> None:
        """Look at all images again, because the history has changed."""
        self._seen = 0
        self._last: ResponseItem | None = None
        self._images: list[InputImage] = []
        self._pictures: list[Picture] = []
        self._reasons: list[str] = []
        self._places: dict[int, int] = {}

    def read(self, items: Sequence[ResponseItem]) -> bool:
        """Examine the images of a request. Return whether the decision about an earlier image has changed."""
        known = self._reasons
        if self._seen and (self._seen > len(items) or items[self._seen - 1] is not self._last):
            self.forget()  # the history was shortened or replaced
        new = [image for item in items[self._seen :] for image in images_of(item)]
        self._seen, self._last = len(items), items[-1] if items else None
        if new:
            start = len(self._images)
            self._images += new
            self._pictures += map(self._picture, new)
            self._places.update({id(image): start + number for number, image in enumerate(new)})
            self._reasons = reasons(self._pictures, self._limits)
            if len(self._examined) > 2 * len(self._images) + _MANY:
                self._examined = {id(image): self._examined[id(image)] for image in self._images}
        return self._reasons[: len(known)] != known

    def _picture(self, image: InputImage) -> Picture:
        known = self._examined.get(id(image))
        if known is None or known[0] is not image:
            known = self._examined[id(image)] = image, examined(image.image_url)
        return known[1]

    def block(self, image: InputImage) -> dict[str, Any]:
        """Return the block of an image, or a note in its place."""
        place = self._places.get(id(image))
        picture = self._picture(image) if place is None else self._pictures[place]
        if reason := _own_reason(picture, self._limits) if place is None else self._reasons[place]:
            return {"type": "text", "text": f"[An image was here. It was left out: {reason}.]"}
        return {"type": "image", "source": source(image.image_url, picture)}

    def losses(self) -> list[LeftOut]:
        """Return the omissions whose reasons have not been reported yet."""
        counts = Counter(reason for reason in self._reasons if reason and reason not in self._told)
        self._told.update(counts)
        return [LeftOut("images", count, reason) for reason, count in counts.items()]
