"""The compactor of a turn: which one it is, when it is due, and the check of its result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from codex_framework.contract.errors import CodexError, StopTurn, ThreadError
from codex_framework.contract.protocol.events import (
    EventMsg,
    ItemCompletedEvent,
    ItemStartedEvent,
    TokenCountEvent,
    TokenUsage,
    TokenUsageInfo,
)
from codex_framework.contract.protocol.items import Message, ResponseItem, is_user_message, message_text
from codex_framework.contract.protocol.turn_items import older_events
from codex_framework.contract.roles.compactors import Compactor, ContextStatus
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.contract.roles.provenance import Actor, Provenance
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.loader.offers import Offer
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.faults import Label, check_type, checked_items, fact_of
from codex_framework.threads.ids import new_id
from codex_framework.threads.plugin_calls import call_isolated

__all__ = ["ContextPlace", "TurnCompaction"]

ContextPlace = Literal["next_turn", "end", "last_words"]
"""The place of the initial context after a compaction: at the end, or before the last user message. Or the next turn adds it."""


class TurnCompaction:
    """Shortens the history in one turn.

    Attributes:
        compactor: The compactor, if a plugin offers one.
    """

    def __init__(self, conversation: Conversation, model: ModelInfo) -> None:
        self._conversation = conversation
        self._model = model
        self._previous_model = conversation.previous_model
        self._item: dict[str, Any] = {}
        self.compactor = self._choose()

    @cached_property
    def _label(self) -> Label:
        assert self.compactor is not None
        return Label("compactor", self.compactor.item.name, self.compactor.plugin)

    def _choose(self) -> Offer[Compactor] | None:
        """Return the compactor that ``[framework] compactor`` names, else the first one."""
        host = self._conversation.host
        compactors = host.registry.compactors
        wanted = host.config.get("framework.compactor")
        if wanted in compactors:
            return compactors[wanted]
        first = next(iter(compactors.values()), None)
        if wanted is None and len(compactors) < 2:
            return first
        used = "none" if first is None else f"{first.item.name!r} of plugin {first.plugin!r}"
        known = ", ".join(f"{name!r} of plugin {offer.plugin!r}" for name, offer in compactors.items())
        if wanted is not None:
            text = f"no plugin offers the compactor {wanted!r}; used instead is {used}"
            hint = f"Set `[framework] compactor` to one of these: {known}." if known else "Install a plugin that does."
            self._conversation.notices.tell(f"{text}. {hint}")
        elif first is not None and host.registry.is_installed(first.plugin):
            text = f"there are several compactors ({known}), and {used} is used"
            self._conversation.notices.tell(f"{text}. Choose one with `[framework] compactor`.")
        return first

    def reason(self, facts: TurnFacts, *, first: bool) -> str | None:
        """Return the compactor's reason for a compaction before the next sample, if it has one.

        Args:
            first: Whether the turn has not sampled the model yet.
        """
        if self.compactor is None:
            return None
        notices, previous = self._conversation.notices, self._previous_model
        status = ContextStatus(
            tokens=self._conversation.journal.history.tokens,
            window=self._model.context_window,
            first=first,
            previous_model=None if previous is None or previous.slug == self._model.slug else previous,
        )
        due = self.compactor.item.due
        try:
            reason = notices.call(self._label, "due", due, status, facts)
            return None if reason is None else check_type(reason, str, "it", due)
        except Exception as error:  # counts as not due, and is reported once
            notices.tell(self._label.describe_failure("due", error, then="The history is not compacted.", source=due))
            return None

    def require(self) -> Offer[Compactor]:
        """Return the compactor. Raises ThreadError if no plugin offers one."""
        if self.compactor is None:
            raise ThreadError(
                "no plugin compacts conversations", slug="no-compactor", hint="Enable the plugin `compaction`."
            )
        return self.compactor

    async def compact(self, reason: str, turn: TurnContext) -> Compaction:
        """Return the compactor's compaction of the conversation. Nothing is replaced yet.

        Clients get ``item_started``. :meth:`complete` completes the item.

        Args:
            turn: The compactor's context of the turn.

        Raises:
            StopTurn: The compactor ends the turn.
            CodexError: The compactor failed.
        """
        offer = self.require()
        compact = offer.item.compact
        self._item = {"type": "ContextCompaction", "id": new_id()}
        self._conversation.journal.emit(turn.facts.turn_id, self._item_event(ItemStartedEvent, turn.facts))
        began = time.monotonic()
        try:
            with turn.span("codex.task.compact", compactor=offer.item.name):
                result = await call_isolated(compact, turn, reason)
                compaction = check_type(result, Compaction, "it", compact)
            items = checked_items(compaction.items, "its compaction's `items`", compact)
            check_type(compaction.message, str, "its compaction's `message`", compact)
        except (CodexError, StopTurn):
            raise
        except Exception as error:  # a plugin may raise anything
            fact = f"{self._label}: compact() failed: {fact_of(error, offer.item.compact)}"
            hint = f"{self._label.advice(error)} Choose another with `[framework] compactor`."
            raise ThreadError(fact, slug="compaction", hint=hint) from error
        compaction = compaction.evolve(items=items)
        by = Actor(role="compactor", name=offer.item.name, plugin=offer.plugin)
        took = time.monotonic() - began
        done = Provenance(did="compacted", what="history", by=by, seconds=took, reason=reason)
        self._conversation.trail.record(done, turn.facts.turn_id)
        return compaction

    def complete(self, compaction: Compaction, facts: TurnFacts, place: ContextPlace) -> Sequence[str]:
        """Replace the history by a compaction and flush it to disk.

        Args:
            place: The position at which the initial context is inserted.

        Returns:
            The problems of context sources, as sentences for the user.
        """
        conversation, journal = self._conversation, self._conversation.journal
        items: list[ResponseItem] = list(compaction.items)
        warnings: Sequence[str] = ()
        if place != "next_turn":
            update = conversation.prompt_context.update(facts.evolve(first=True), None)
            at = len(items) if place == "end" else _last_words(items, compaction.message)
            items[at:at] = update.messages
            warnings = update.warnings
            conversation.trail.record_context(update, facts.turn_id)
        journal.compact(items, compaction.message)
        journal.emit(facts.turn_id, self._item_event(ItemCompletedEvent, facts))
        for event in older_events(self._item) or ():
            journal.emit(facts.turn_id, event)
        length = TokenUsage(total_tokens=journal.history.tokens)  # estimated, because no server has counted it yet
        info = TokenUsageInfo(conversation.total_usage, length, facts.model.usable_window)
        journal.emit(facts.turn_id, TokenCountEvent(info))
        journal.flush(facts.turn_id)
        return warnings

    def _item_event(self, event: type[ItemStartedEvent | ItemCompletedEvent], facts: TurnFacts) -> EventMsg:
        return event(facts.thread_id, facts.turn_id, self._item, int(time.time() * 1000))


def _last_words(items: Sequence[ResponseItem], summary: str) -> int:
    """Return the index of the last user message, or of the summary if there is no such message."""
    at_summary = len(items)
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if not isinstance(item, Message) or item.role != "user":
            continue
        if summary and message_text(item) == summary:
            at_summary = place
        elif is_user_message(item):
            return place
    return at_summary
