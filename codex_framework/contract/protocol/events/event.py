"""The envelope of events, and the base class of all events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codex_framework.contract.value import Value, field

__all__ = ["Event", "EventMsg", "PluginEvent", "UnknownEvent"]

PACKED_TEXTS = "_packed_texts"
"""The key in the ``__dict__`` of a recorded event under which its long texts are kept as UTF-8, by field, until they are read."""

_NOTHING: Mapping[str, bytes] = {}


class EventMsg(Value):
    """The base of all events for clients. Derive from it for an event of a plugin's own.

    Attributes:
        type: The tag on the wire, unique among all events.
        kept: Whether thread stores keep it.
        is_delta: Whether it is a part of something that a later event contains completely. Deltas are numerous: stores do not
            keep them, and observers do not receive them.
    """

    type: ClassVar[str] = ""
    kept: ClassVar[bool] = False
    is_delta: ClassVar[bool] = False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # called only for what an instance does not have
            packed = self.__dict__.get(PACKED_TEXTS, _NOTHING).get(name)
            if packed is not None:
                return packed.decode("utf-8", "surrogatepass")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def is_kept(self) -> bool:
        """Return whether thread stores keep this event. By default all events of a class are treated the same."""
        return self.kept


class PluginEvent(EventMsg):
    """An event without its own class. ``kind`` is ``<plugin>.<name>``. Clients ignore unknown kinds."""

    type: ClassVar[Literal["plugin_event"]] = "plugin_event"
    kind: str
    payload: Mapping[str, Any]


class UnknownEvent(EventMsg):
    """An event of an unknown kind, unchanged."""

    type: ClassVar[Literal[""]] = ""
    raw: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The ``type`` that was read. Empty if it is missing or not text."""
        tag = self.raw.get("type")
        return tag if isinstance(tag, str) else ""


class Event(Value):
    """An event on its way to clients.

    Attributes:
        id: The id of the submission that caused it. A turn has the id of the submission that started it.
        thread_id: The child thread that made the request, if a request is passed up to its parent. Empty for a thread's own
            events.
        number: The position among the events that the thread has sent since it was started or resumed, from 1, equal for all
            listeners. A number is missing if the listener filtered the event out, or lost it because it was too slow. A
            listener that is closed for being too slow gets the number 0 with its last event.
    """

    id: str
    msg: EventMsg
    thread_id: str = ""
    number: int = field(default=0, eq=False)
