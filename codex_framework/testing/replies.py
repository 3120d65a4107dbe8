"""Short ways to write replies: ``say("hi") + call("exec_command", cmd="ls")``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from codex_framework.contract.errors import ModelError
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    ResponseItem,
)
from codex_framework.testing.scripted import USAGE, Fault, Reply

__all__ = ["call", "custom_call", "fail", "fault", "local_shell", "reasoning", "reply", "say"]


def say(
    text: str,
    *,
    phase: str | None = None,
    deltas: int = 1,
    delta_delay_s: float = 0.0,
    usage: TokenUsage | None = USAGE,
) -> Reply:
    """Return a message of the assistant that arrives in ``deltas`` pieces."""
    message = Message("assistant", (OutputText(text),), phase=phase)
    return Reply(items=(message,), deltas=deltas, delta_delay_s=delta_delay_s, usage=usage)


def reasoning(*summary: str, encrypted_content: str | None = None, deltas: int = 1) -> Reply:
    """Return reasoning with these summary parts."""
    parts = tuple({"type": "summary_text", "text": text} for text in summary)
    return Reply(items=(Reasoning(summary=parts, encrypted_content=encrypted_content),), deltas=deltas)


def call(
    name: str, arguments: Mapping[str, Any] | str | None = None, /, *, call_id: str = "", **keywords: Any
) -> Reply:
    """Return a function call. The arguments are a mapping, keywords, or a text, which may be invalid JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps({**(arguments or {}), **keywords})
    return Reply(items=(FunctionCall(name, text, call_id),))


def custom_call(name: str, input: str, *, call_id: str = "", deltas: int = 1) -> Reply:  # noqa: A002  # the wire's word
    """Return a call of a freeform tool."""
    return Reply(items=(CustomToolCall(name, input, call_id, status="completed"),), deltas=deltas)


def local_shell(*command: str, call_id: str = "", **action: Any) -> Reply:
    """Return a call of the native ``local_shell`` tool."""
    wire = {"type": "exec", "command": list(command), **action}
    return Reply(items=(LocalShellCall(wire, call_id or None, "completed"),))


def reply(*items: ResponseItem, **settings: Any) -> Reply:
    """Return a response with any items. ``settings`` are fields of :class:`~codex_framework.testing.scripted.Reply`."""
    return Reply(items=items, **settings)


def fault(
    status: int | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    body: str | Mapping[str, Any] | None = None,
    after: int | None = None,
    reset: bool = False,
    hang_s: float = 0.0,
    cut_at: int | None = None,
    piece_bytes: int = 0,
    piece_pause_s: float = 0.0,
    duplicates: Iterable[int] = (),
    garbled: Iterable[int] = (),
    out_of_order: bool = False,
    no_completed: bool = False,
    raw_before: str = "",
    raw_after: str = "",
    failed: Mapping[str, Any] | str | None = None,
    incomplete: str | None = None,
) -> Reply:
    """Return a response with a fault. It takes the fields of :class:`~codex_framework.testing.scripted.Fault`.

    Use it alone, or after the output before the fault: ``say("a") + fault(after=2)``.
    """
    return Reply(
        fault=Fault(
            status=status,
            headers=headers or {},
            body=body,
            after=after,
            reset=reset,
            hang_s=hang_s,
            cut_at=cut_at,
            piece_bytes=piece_bytes,
            piece_pause_s=piece_pause_s,
            duplicates=tuple(duplicates),
            garbled=tuple(garbled),
            out_of_order=out_of_order,
            no_completed=no_completed,
            raw_before=raw_before,
            raw_after=raw_after,
            failed={"code": failed, "message": failed} if isinstance(failed, str) else failed,
            incomplete=incomplete,
        )
    )


def fail(
    message: str, *, retryable: bool = False, retry_after_s: float | None = None, info: str | dict[str, Any] = "other"
) -> Reply:
    """Return a response for which a scripted model (not a server) raises this :class:`~codex_framework.contract.errors.ModelError`."""
    return Reply(fault=Fault(error=ModelError(message, retryable=retryable, retry_after_s=retry_after_s, info=info)))
