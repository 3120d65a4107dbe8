"""The record of changes, refusals and additions in a thread, and the change recorders that write it.

The entries are part of the thread's record. They have the kind :data:`KIND` and the name of the plugin that acted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

from codex_framework.contract.roles.calls import ToolCall
from codex_framework.contract.value import Value

__all__ = ["KIND", "Actor", "Change", "ChangeRecorder", "Deed", "Passage", "Provenance", "Source", "TurnRecorder"]

KIND = "provenance"
"""The kind of these entries."""

Deed: TypeAlias = Literal["changed", "refused", "stopped", "decided", "redacted", "added", "compacted"]
"""The kinds of action: an interceptor changed something; something was refused; an interceptor ended the turn; an approval was
decided; texts of a call were redacted; items were added to the history; the history was compacted.
"""


class Actor(Value, kw_only=True):
    """The plugin, user or part of the kernel that acted.

    Attributes:
        role: ``interceptor``, ``command policy``, ``approval policy``, ``approval reviewer``, ``user``, ``nobody`` (no user
            could answer), ``sandbox``, ``permissions``, ``tool``, ``compactor``, ``context source``, ``component``, ``task``,
            ``client`` or ``kernel``.
        plugin: Its plugin. Empty if it belongs to none.
        causes: The causes of the action, in its own words (:meth:`~codex_framework.TurnContext.because`): a hook, a rule, a file.
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
    - ``call``: ``name``, ``kind`` and ``arguments``, which are an object if they are a JSON object, else a text;
    - ``output``: ``content``, ``success``, ``truncate`` and ``details``;
    - ``item``: the item;
    - ``stop``: ``items``, which starts empty.

    It never contains the previous value. A text that a later interceptor took out again, or that an interceptor redacts, is not
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
        items: The marks of added or changed items, after the change.
        without: The marks of removed or changed items, before the change, if the history contains them.
        withheld: The paths of values that are not recorded exactly; and for ``redacted``, the places that were redacted.
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

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The data of its entry, without fields that say nothing. An empty patch says something."""
        from codex_framework.contract.protocol.wire import to_wire

        return _without_defaults(to_wire(self))


def _without_defaults(data: dict[str, Any]) -> dict[str, Any]:
    slim: dict[str, Any] = {name: value for name, value in data.items() if value not in ("", [], 0) or name == "patch"}
    if "seconds" in slim:
        slim["seconds"] = round(slim["seconds"], 6)
    if "by" in slim:
        slim["by"] = _without_defaults(slim["by"])
    if "sources" in slim:
        slim["sources"] = [{"part": source["part"], **_without_defaults(source)} for source in slim["sources"]]
    return slim


class Change(Value):
    """A change that an interceptor made to a value.

    Attributes:
        seconds: How long the interceptor took, if it is known.
    """

    by: Actor
    before: Any
    after: Any
    seconds: float | None = None


class Passage(Value, kw_only=True):
    """The complete path of a value through the interceptors of a turn.

    Attributes:
        what: The kind of the value, as in :class:`Provenance`. It is a ``UserInput``, ``ModelRequest``, ``ToolCall``,
            ``ToolOutput`` or an item; for ``stop`` a tuple of the items with which the turn continues.
        changes: The changes in their order. A request may have none: this ends the changes of the one before.
        call: The call that the value belongs to.
        sample: The number of the request in its turn, from 1.
        refused: Whether the next interceptor refused the value or failed, so that nothing of the changes is left.
    """

    what: str
    changes: Sequence[Change]
    call: ToolCall | None = None
    sample: int | None = None
    refused: bool = False


class TurnRecorder(ABC):
    """Describes what happens in one turn. Both methods are called on the event loop, so they must be quick."""

    @abstractmethod
    def change_entries(self, passage: Passage) -> Iterable[Provenance]:
        """Return the entries for the changes of a value. The values are as interceptors saw them: keep none of them yourself."""

    def fact_entries(self, fact: Provenance) -> Iterable[Provenance]:
        """Return the entries for any other fact. The default is the fact itself."""
        return (fact,)


class ChangeRecorder(ABC):
    """Records who changed, refused or added something, as it happens.

    The kernel calls it with complete facts and writes its entries immediately, so they are in order with the other lines of the
    record. What must not be recorded is taken out of every entry before: texts that a later interceptor removed, all values of
    what was refused in the end, and what interceptors redact. Threads without a record have no recorder. An exception becomes a
    warning that names it.

    Attributes:
        name: A short name.
    """

    name: str

    @abstractmethod
    def begin_turn(self) -> TurnRecorder:
        """Return the recorder of one turn, or of one fact outside of turns. It is made when there is something to record."""
