"""A compaction in a turn: the interceptors around it, the compactor, and the check of what it gives."""

from __future__ import annotations

from codex_framework.contract.errors import CodexError, StopTurn, ThreadError
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.threads.faults import checked, described
from codex_framework.threads.turn.interception import Interception
from codex_framework.threads.turn.turn_context import TurnContexts

__all__ = ["compacted"]


async def compacted(contexts: TurnContexts, interception: Interception, reason: str) -> Compaction:
    """Have the compactor shorten the conversation; nothing is replaced yet.

    Raises:
        StopTurn: An interceptor ends the turn.
        CodexError: There is no compactor, an interceptor prevents it, or it failed.
    """
    offer = contexts.scope.compactor
    if offer is None:
        raise ThreadError(
            "no plugin compacts conversations", slug="no-compactor", hint="Enable the plugin `compaction`."
        )
    try:
        await interception.before_compact(reason)
        compaction = await offer.item.compact(contexts(offer.plugin), reason)
        compaction = checked(compaction, Compaction, f"compactor {offer.item.name!r}")
    except (CodexError, StopTurn):
        raise
    except Exception as error:  # a plugin may raise anything
        text = f"compactor {offer.item.name!r} of plugin {offer.plugin!r} failed: {described(error)}"
        raise ThreadError(text, slug="compaction") from error
    await interception.after_compact(compaction, reason)
    return compaction
