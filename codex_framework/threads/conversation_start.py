"""What telemetry gets about a new thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.wire import to_wire
from codex_framework.threads.conversation import Conversation
from codex_framework.threads.spans import event

__all__ = ["tell_start"]


def tell_start(conversation: Conversation) -> None:
    """Report a new thread and its settings to telemetry."""
    settings, meta = conversation.settings, conversation.meta
    model = conversation.host.models.info(settings)
    servers = conversation.config.get("mcp_servers") or {}
    told: dict[str, Any] = {
        "provider_name": settings.provider.id,
        "model": settings.model,
        "reasoning_effort": settings.reasoning_effort or model.default_effort,
        "reasoning_summary": settings.reasoning_summary or "auto",
        "context_window": model.context_window,
        "auto_compact_token_limit": conversation.config.get("model_auto_compact_token_limit"),
        "approval_policy": _name(to_wire(settings.approval_policy)),
        "sandbox_policy": _name(to_wire(settings.sandbox_policy)),
        "mcp_servers": ", ".join(sorted(servers)),
        "active_profile": conversation.config.get("profile"),
        "originator": meta.originator,
        "session_source": meta.source,
        "origin": conversation.origin,
    }
    known = {name: value for name, value in told.items() if value is not None}
    event(conversation.host.broadcast, "codex.conversation_starts", known, thread_id=conversation.id)


def _name(policy: Any) -> str:
    """Return the name of a policy, without its details, which may contain paths."""
    if isinstance(policy, Mapping):
        return str(policy.get("type") or next(iter(policy), ""))
    return str(policy)
