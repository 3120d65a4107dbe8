"""A compaction in a turn: the interceptors, the compactor, and the check of its result."""

from __future__ import annotations

import time

from codex_framework.contract.errors import CodexError, StopTurn, ThreadError
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.contract.roles.provenance import Actor, Provenance
from codex_framework.threads.faults import Label, checked, checked_items, fact_of
from codex_framework.threads.plugin_calls import call_isolated
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["compacted"]


async def compacted(contexts: TurnContexts, interception: Interception, reason: str) -> Compaction:
    """Return the compactor's compaction of the conversation. Nothing is replaced yet.

    Clients get ``item_started``. :meth:`~codex_framework.threads.conversation.Conversation.compact` completes the item.

    Raises:
        StopTurn: An interceptor ends the turn.
        CodexError: There is no compactor, an interceptor prevents it, or it failed.
    """
    offer = contexts.scope.compactor
    if offer is None:
        raise ThreadError(
            "no plugin compacts conversations", slug="no-compactor", hint="Enable the plugin `compaction`."
        )
    began = time.monotonic()
    try:
        await interception.before_compact(reason)
        contexts.scope.conversation.begin_compaction(contexts.scope.facts)
        began = time.monotonic()
        compact = offer.item.compact
        with contexts.scope.telemetry.measuring("codex.task.compact", compactor=offer.item.name):
            compaction = checked(
                await call_isolated(compact, contexts(offer.plugin), reason), Compaction, "it", compact
            )
        items = checked_items(compaction.items, "its compaction's `items`", compact)
        checked(compaction.message, str, "its compaction's `message`", compact)
    except (CodexError, StopTurn):
        raise
    except Exception as error:  # a plugin may raise anything
        label = Label("compactor", offer.item.name, offer.plugin)
        fact = f"{label}: compact() failed: {fact_of(error, offer.item.compact)}"
        hint = f"{label.advice(error)} Choose another with `[framework] compactor`."
        raise ThreadError(fact, slug="compaction", hint=hint) from error
    compaction = compaction.evolve(items=items)
    if contexts.scope.keeps_changes:
        by = Actor(role="compactor", name=offer.item.name, plugin=offer.plugin)
        took = time.monotonic() - began
        record = Provenance(did="compacted", what="history", by=by, seconds=took, reason=reason)
        contexts.scope.conversation.trail.keep(record, contexts.scope.turn_id)
    await interception.after_compact(compaction, reason)
    return compaction
