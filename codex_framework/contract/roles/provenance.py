"""The record of who changed, refused or added something in a thread.

The kernel writes it into the thread's record as entries of the kind :data:`KIND`, each in the name of the plugin that acted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from codex_framework.contract.value import Value

__all__ = ["KIND", "Actor", "Deed", "Provenance", "Source"]

KIND = "provenance"
"""The kind of these entries."""

Deed: TypeAlias = Literal["changed", "refused", "stopped", "decided", "redacted", "added", "compacted"]
"""What somebody did: an interceptor changed something; something was refused; an interceptor ended the turn; an approval was
decided; texts of a call were redacted; items were added to the history; the history was compacted."""


class Actor(Value, kw_only=True):
    """Somebody who acted.

    Attributes:
        role: ``interceptor``, ``command policy``, ``approval policy``, ``approval reviewer``, ``user``, ``nobody`` (nobody could
            answer), ``sandbox``, ``permissions``, ``tool``, ``compactor``, ``context source``, ``component``, ``task``, ``client``
            or ``kernel``.
        plugin: Its plugin. Empty if it belongs to none.
        causes: What it acted for, in its own words (:meth:`~codex_framework.TurnContext.because`): a hook, a rule, a file.
    """

    role: str
    name: str = ""
    plugin: str = ""
    causes: Sequence[str] = ()


class Source(Value, kw_only=True):
    """The source of one part of an item.

    Attributes:
        item: The mark of the item.
        part: The position in its content.
        seconds: How long the source took. A source that gave several parts has it at each.
    """

    by: Actor
    item: str
    part: int
    seconds: float | None = None


class Provenance(Value, kw_only=True):
    """One change, refusal, decision or addition.

    A patch is a JSON Patch (RFC 6902) of a document that shows the data in the form of the wire:

    - ``input``: ``items`` and ``context``;
    - ``request``: the changed fields of the request; ``tools`` by name, and ``items``;
    - ``call``: ``name``, ``kind`` and ``arguments``, which are an object if they are JSON of an object, else a text;
    - ``output``: ``content``, ``success``, ``truncate`` and ``details``;
    - ``item``: the item;
    - ``stop``: ``items``, which is empty before.

    It never contains what was there before. A text that a later interceptor took out again, or that an interceptor redacts, is not
    recorded either: ``withheld`` has the paths of these values, which are null or redacted in the patch.

    Attributes:
        what: ``input``, ``request``, ``call``, ``output``, ``item``, ``stop``, ``compaction``, ``approval``, ``text`` (redacted),
            ``context``, ``delivery`` or ``record``.
        seconds: How long it took.
        call_id: The call that is concerned.
        tool: The name of its tool, as the model used it.
        sample: The number of the request in its turn, from 1.
        patch: The difference. An empty patch of a request ends the change of the previous requests.
        repeats: How many operations of the previous patch of the same interceptor and turn apply first. A request whose patch is
            the previous one is not recorded again.
        items: The marks of the items that were added or changed, as they are afterwards.
        without: The marks of the items that were removed or changed, as they were before, if they are in the history.
        withheld: The paths of values that are not recorded as they were; and for ``redacted``, the places that were redacted.
        decision: The decision about an approval, in the wire's words.
        reason: The reason that was given.
        sources: The sources of added context.
    """

    did: Deed
    what: str
    by: Actor
    seconds: float | None = None
    call_id: str | None = None
    tool: str | None = None
    sample: int | None = None
    patch: Sequence[Mapping[str, Any]] | None = None
    repeats: int = 0
    items: Sequence[str] = ()
    without: Sequence[str] = ()
    withheld: Sequence[str] = ()
    decision: str | None = None
    reason: str | None = None
    sources: Sequence[Source] = ()
