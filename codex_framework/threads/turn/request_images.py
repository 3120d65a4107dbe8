"""The images of the history in a turn's requests. Those that cannot be sent are left out, and the user is told."""

from __future__ import annotations

from collections.abc import Callable

from codex_framework.contract.protocol.items import begins_turn
from codex_framework.contract.roles.models import LeftOut
from codex_framework.threads.history import History, HistoryPrompt
from codex_framework.threads.images import images_of

__all__ = ["refuse_images", "with_images"]


def with_images(
    prompt: HistoryPrompt, history: History, tell: Callable[[LeftOut], None], *, sees: bool
) -> HistoryPrompt:
    """Return a prompt with the images that the model takes and its server does not refuse.

    Args:
        tell: Tells the user what is left out.
        sees: Whether the model takes images.
    """
    if not history.pictured or (sees and not history.images):
        return prompt
    if not sees:
        count = sum(len(list(images_of(item))) for item in history.pictured)
        tell(LeftOut("images", count, "the model takes none"))
    return prompt.without(history.images, sees=sees)


def refuse_images(history: History, tell: Callable[[LeftOut], None]) -> bool:
    """Leave the images of the newest item with images out of requests from now on, because the server has refused a request.

    Returns:
        Whether the request can be sent again without them. It cannot if there is no image left, or if the images are in the last
        message of the user, who then should send another one.
    """
    for item in reversed(history.pictured):
        count = history.images.refuse(item)
        if count:
            tell(LeftOut("images", count, "the server refuses them as invalid"))
            return item is not next(filter(begins_turn, reversed(history.items)), None)
    return False
