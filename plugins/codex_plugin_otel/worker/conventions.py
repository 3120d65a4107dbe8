"""How spans are named and described: Codex's words, and the semantic conventions of OpenTelemetry for generative AI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codex_plugin_otel.worker.measured import Measured

__all__ = ["described", "plain", "provider_name"]

_NAMES = {
    "codex.turn": "session_task.turn",
    "codex.sampling": "run_sampling_request",
    "codex.tool.call": "handle_tool_call",
}
"""Codex's names of spans."""

_COUNTED = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)
"""The token counts of a turn."""

_KNOWN_PROVIDERS = {"openai": "openai", "azure": "azure.ai.openai", "anthropic": "anthropic"}


def described(measured: Measured) -> tuple[str, bool, dict[str, Any]]:
    """Return the name of a span, whether it is a request to another system, and its attributes."""
    attributes = {name: plain(value) for name, value in measured.attributes.items()}
    if measured.thread_id:
        attributes["conversation.id"] = attributes["gen_ai.conversation.id"] = measured.thread_id
    if measured.turn_id:
        attributes["turn.id"] = measured.turn_id
    add = _DESCRIPTIONS.get(measured.name)
    if add is not None:
        attributes.update(add(attributes))
    return _NAMES.get(measured.name, measured.name), measured.name in ("codex.sampling", "mcp.call"), attributes


def plain(value: Any) -> str | int | float | bool:
    """Return a value as OTLP can express it: plugins may have measured anything."""
    if isinstance(value, (str, float)) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return str(value)


def provider_name(provider: str) -> str:
    """Return the name of a provider, in the words of the conventions where they have one."""
    return _KNOWN_PROVIDERS.get(provider, provider)


def _turn(said: dict[str, Any]) -> dict[str, Any]:
    tokens = {f"codex.turn.token_usage.{name}": said.pop(name) for name in _COUNTED if name in said}
    if tokens:
        whole, cached = (
            tokens.get(f"codex.turn.token_usage.{name}", 0) for name in ("input_tokens", "cached_input_tokens")
        )
        tokens["codex.turn.token_usage.non_cached_input_tokens"] = whole - cached
    return {
        "thread.id": said.get("conversation.id", ""),
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": said.get("agent", "codex"),
        **_model(said),
        **tokens,
        **{
            f"gen_ai.usage.{name}": tokens[f"codex.turn.token_usage.{name}"]
            for name in ("input_tokens", "output_tokens")
            if f"codex.turn.token_usage.{name}" in tokens
        },
    }


def _sampling(said: dict[str, Any]) -> dict[str, Any]:
    names = {
        "response_id": "gen_ai.response.id",
        "input_tokens": "gen_ai.usage.input_tokens",
        "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
        "cache_write_input_tokens": "gen_ai.usage.cache_write.input_tokens",
        "output_tokens": "gen_ai.usage.output_tokens",
        "reasoning_output_tokens": "codex.usage.reasoning_output_tokens",
        "total_tokens": "codex.usage.total_tokens",
        "reasoning_effort": "codex.request.reasoning_effort",
    }
    moved = {new: said.pop(old) for old, new in names.items() if old in said}
    return {"gen_ai.operation.name": "chat", **_model(said), **moved}


def _model(said: dict[str, Any]) -> dict[str, Any]:
    provider = {"gen_ai.provider.name": provider_name(said["provider"])} if "provider" in said else {}
    return {**provider, **({"gen_ai.request.model": said["model"]} if "model" in said else {})}


def _tool(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": said.get("tool_name", ""),
        "gen_ai.tool.call.id": said.get("call_id", ""),
        "gen_ai.tool.type": "function",
    }


_DESCRIPTIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "codex.turn": _turn,
    "codex.sampling": _sampling,
    "codex.tool.call": _tool,
}
