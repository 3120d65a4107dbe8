"""Items that are added to a conversation by others than the running task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.threads import Delivery
from codex_framework.contract.value import Value
from codex_framework.threads.faults import checked_items, refuse

__all__ = ["Delivered", "make_delivery"]


class Delivered(Value):
    """Items of a plugin. ``when`` is a ``Delivery`` of the contract."""

    items: tuple[ResponseItem, ...]
    event: EventMsg | None = None
    when: Delivery = "join"


def make_delivery(items: Sequence[ResponseItem], when: Delivery, event: EventMsg | None) -> Delivered:
    """Return a delivery from the arguments of a plugin or a program.

    Raises:
        TypeError: An argument is not a list of items, a known mode or an event.
    """
    if when not in get_args(Delivery):
        refuse(f"one of {', '.join(get_args(Delivery))} as `when`", when, "deliver")
    if event is not None and not isinstance(event, EventMsg):
        refuse("an EventMsg as `event`", event, "deliver")
    return Delivered(checked_items(items, "what is delivered"), event, when)
