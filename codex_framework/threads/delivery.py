"""Items that somebody else than the running task puts into a conversation."""

from __future__ import annotations

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.threads import Delivery
from codex_framework.contract.value import Value

__all__ = ["Delivered"]


class Delivered(Value):
    """Items of a plugin. ``when`` is a ``Delivery`` of the contract."""

    items: tuple[ResponseItem, ...]
    event: EventMsg | None = None
    when: Delivery = "join"
