"""The event catalogue of Codex: which log records a measurement makes, with which attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codex_plugin_otel.worker.calls import Calls
from codex_plugin_otel.worker.measured import Measured
from codex_plugin_otel.worker.previews import preview
from codex_plugin_otel.worker.threads import Threads

__all__ = ["REDACTED", "Catalogue"]

Record = tuple[str, float, dict[str, Any]]
"""The name, the Unix time in seconds, and the attributes of a log record."""

REDACTED = "[REDACTED]"
"""Stands for a prompt, unless the user allows prompts in logs."""

_TOKENS = {
    "input_token_count": "input_tokens",
    "output_token_count": "output_tokens",
    "cached_token_count": "cached_input_tokens",
    "cache_write_token_count": "cache_write_input_tokens",
    "reasoning_token_count": "reasoning_output_tokens",
    "tool_token_count": "total_tokens",
    "ttft_ms": "ttft_ms",
    "model_reasoning_effort": "reasoning_effort",
}

_STARTED = (
    "provider_name", "reasoning_effort", "reasoning_summary", "context_window", "auto_compact_token_limit", "approval_policy",
    "sandbox_policy", "mcp_servers", "active_profile",
)  # fmt: skip


class Catalogue:
    """The log records of the threads of a kernel."""

    def __init__(self, settings: Mapping[str, Any], threads: Threads) -> None:
        self._prompts = settings["log_user_prompt"]
        self._tool_content = settings["log_tool_content"]
        self._output_bytes = settings["tool_result_bytes"]
        self._auth = settings["auth"]
        self._threads = threads
        self._calls = Calls()
        self._makers = {
            "codex.conversation_starts": self._conversation,
            "codex.user_prompt": self._prompt,
            "codex.api_request": self._request,
            "codex.sse_event": self._stream,
            "codex.sampling": self._sampled,
            "codex.tool_decision": self._decision,
            "codex.command": self._command,
            "codex.tool.call": self._result,
            "codex.turn": self._turn,
        }

    def records(self, measured: Measured) -> Iterator[Record]:
        """Return the records of a measurement, in the order of time."""
        make = self._makers.get(measured.name)
        for name, time_s, attributes in make(measured) if make is not None else ():
            yield name, time_s, {**written(attributes), **self._threads.common(measured.thread_id)}

    def _conversation(self, measured: Measured) -> Iterator[Record]:
        told = {name: measured.attributes[name] for name in _STARTED if name in measured.attributes}
        yield measured.name, measured.time_s, {**told, **self._auth}

    def _prompt(self, measured: Measured) -> Iterator[Record]:
        prompt = measured.content.get("prompt", "") if self._prompts else REDACTED
        yield (
            measured.name,
            measured.time_s,
            {"prompt_length": measured.attributes.get("prompt_length", 0), "prompt": prompt},
        )

    def _request(self, measured: Measured) -> Iterator[Record]:
        told = {"duration_ms": measured.duration_ms, **measured.attributes, **self._auth}
        yield measured.name, measured.end_s, told

    def _stream(self, measured: Measured) -> Iterator[Record]:
        before = measured.time_s
        kind = ""
        for kind, moment in measured.marks:
            yield measured.name, moment, {"event.kind": kind, "duration_ms": _ms(moment - before)}
            before = moment
        if measured.failed:
            message = measured.attributes.get("error.message", "")
            told = {"event.kind": kind, "duration_ms": _ms(measured.end_s - before), "error.message": message}
            yield measured.name, measured.end_s, told

    def _sampled(self, measured: Measured) -> Iterator[Record]:
        if "input_tokens" in measured.attributes:
            counts = {name: measured.attributes.get(field) for name, field in _TOKENS.items()}
            known = {name: value for name, value in counts.items() if value is not None}
            yield "codex.sse_event", measured.end_s, {"event.kind": "response.completed", **known}

    def _decision(self, measured: Measured) -> Iterator[Record]:
        yield measured.name, measured.time_s, {"tool_namespace": "functions", **measured.attributes}

    def _command(self, measured: Measured) -> Iterator[Record]:
        self._calls.command(measured)
        yield from ()

    def _result(self, measured: Measured) -> Iterator[Record]:
        name, call_id = (str(measured.attributes.get(field, "")) for field in ("tool_name", "call_id"))
        outcome = self._calls.outcome(measured)
        if outcome:
            yield "codex.sandbox_outcome", measured.end_s, {"tool_name": name, "call_id": call_id, **outcome}
        output, truncated = preview(measured.content.get("output", ""), self._output_bytes)
        content = {"arguments": measured.content.get("arguments", ""), "output": output}
        server = name.split("__")[1] if name.startswith("mcp__") and name.count("__") > 1 else ""
        yield "codex.tool_result", measured.end_s, {
            "tool_result_seq": self._threads.next_result(measured.thread_id),
            "tool_name": name,
            "tool_namespace": f"mcp__{server}" if server else "functions",
            "call_id": call_id,
            "duration_ms": measured.duration_ms,
            "success": _flag(not measured.failed),
            "output_truncated": truncated,
            **(content if self._tool_content else dict.fromkeys(content, REDACTED)),
            "mcp_server": server,
            "mcp_server_origin": measured.attributes.get("mcp_server_origin", ""),
        }  # fmt: skip

    def _turn(self, measured: Measured) -> Iterator[Record]:
        first = measured.attributes.get("ttft_ms")
        if first is not None:
            yield "codex.turn_ttft", measured.time_s + first / 1000, {"duration_ms": first}


def written(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as Codex writes them: numbers as text."""
    return {
        name: str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
        for name, value in attributes.items()
    }


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 0)


def _flag(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
