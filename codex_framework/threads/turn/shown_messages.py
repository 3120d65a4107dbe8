"""Messages of the model as clients see them: their text passes through the views of interceptors while it streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codex_framework.contract.protocol.items import Message, message_text
from codex_framework.contract.roles.interceptors import MessageView

__all__ = ["ShownMessages"]


class ShownMessages:
    """The messages of one response.

    Args:
        views: Makes the views of a message, the first one to be asked first. None of them means that clients see the text as it is.
        start: Called before the first text of a message is shown, with the message as it began.
    """

    def __init__(self, views: Callable[[], Sequence[MessageView]], start: Callable[[Message], None]) -> None:
        self._views = views
        self._start = start
        self._open: dict[str, _Message] = {}

    def begin(self, item: Message) -> None:
        """Take the beginning of a message. Clients see it when there is text to show."""
        self._open[item.id or ""] = _Message(self._views(), item)

    def show(self, item_id: str, text: str) -> str:
        """Return what clients see of a piece of text. Whitespace at the start of a message waits for what follows."""
        message = self._open.get(item_id)
        if message is None:
            message = self._open[item_id] = _Message(self._views(), None)
        return self._begun(message, message.take(text))

    def _begun(self, message: _Message, text: str) -> str:
        whole = message.waiting + text
        if not message.has_begun and not whole.strip():
            message.waiting = whole
            return ""
        message.waiting = ""
        if whole and not message.has_begun:
            message.has_begun = True
            if message.item is not None:
                self._start(message.item)
        return whole

    def complete(self, item: Message) -> tuple[str, str]:
        """Return what clients see of a whole message, and the part of it that was not returned before."""
        message = self._open.pop(item.id or "", None)
        text = message_text(item)
        if message is None or not text.startswith(received := "".join(message.received)):
            message = _Message(self._views(), None if message is None or message.has_begun else message.item)
            received = ""
        rest = message.take(text[len(received) :]) + message.end()
        shown = self._begun(message, rest)
        return ("".join(message.shown) if message.has_begun else ""), shown


class _Message:
    def __init__(self, views: Sequence[MessageView], item: Message | None) -> None:
        self._views = views
        self.item = item
        self.received: list[str] = []
        self.shown: list[str] = []
        self.waiting = ""
        self.has_begun = False

    def take(self, text: str) -> str:
        """Return what the views show of a piece of text."""
        self.received.append(text)
        return self._pass_through(text, self._views)

    def end(self) -> str:
        """Return what the views have held back, the text of each passed on to those after it."""
        return "".join(
            [self._pass_through(view.end(), self._views[place + 1 :]) for place, view in enumerate(self._views)]
        )

    def _pass_through(self, text: str, views: Sequence[MessageView]) -> str:
        for view in views:
            text = view.feed(text) if text else text
        self.shown.append(text)
        return text
