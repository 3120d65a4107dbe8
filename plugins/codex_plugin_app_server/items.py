"""Items as the protocol shows them (``ThreadItem``), made of the kernel's turn items and of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from codex_framework.toolkit.command_line import command_line

__all__ = ["camel", "camel_keys", "command_actions", "dynamic_tool_item", "thread_item"]


def thread_item(
    item: Mapping[str, Any], started_at_ms: int | None, completed_at_ms: int | None
) -> dict[str, Any] | None:
    """Return the ``ThreadItem`` of a turn item, or None if clients of this protocol have no such item."""
    kind = item.get("kind") if item.get("type") == "Extension" else item.get("type")
    make = _KINDS.get(str(kind))
    if make is None:
        return None
    return {**make(item), "startedAtMs": started_at_ms, "completedAtMs": completed_at_ms}


def dynamic_tool_item(call: Mapping[str, Any], *, ended: bool) -> dict[str, Any]:
    """Return the item of a call of a client's tool: of the request's wire form, or of the event at its end."""
    duration = call.get("duration")
    success = call.get("success") if ended else None
    content = [
        {**part, "type": _CONTENT_TYPES.get(str(part.get("type")), part.get("type"))}
        for part in call.get("content_items") or ()
    ]
    return {
        "type": "dynamicToolCall",
        "id": call.get("callId") or call.get("call_id") or "",
        "namespace": call.get("namespace"),
        "tool": call.get("tool") or "",
        "arguments": call.get("arguments"),
        "status": ("completed" if success else "failed") if ended else "inProgress",
        "contentItems": content if ended else None,
        "success": success,
        "durationMs": _milliseconds(duration),
    }


_CONTENT_TYPES = {"input_text": "inputText", "input_image": "inputImage"}


def _user_message(item: Mapping[str, Any]) -> dict[str, Any]:
    content = [_user_input(part) for part in item.get("content") or ()]
    return {"type": "userMessage", "id": item["id"], "clientId": item.get("client_id"), "content": content}


def _user_input(part: Mapping[str, Any]) -> dict[str, Any]:
    match part.get("type"):
        case "image":
            return {"type": "image", "url": part.get("image_url") or "", "detail": part.get("detail")}
        case "local_image":
            return {"type": "localImage", "path": part.get("path") or "", "detail": part.get("detail")}
        case "skill" | "mention" as kind:
            return {"type": kind, "name": part.get("name") or "", "path": part.get("path") or ""}
        case _:
            elements = [camel_keys(each) for each in part.get("text_elements") or ()]
            return {"type": "text", "text": part.get("text") or "", "text_elements": elements}


def _agent_message(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "agentMessage",
        "moderation": None,
        "id": item["id"],
        "text": "".join(str(part.get("text", "")) for part in item.get("content") or ()),
        "phase": item.get("phase"),
        "memoryCitation": None,
        "delivery": item.get("delivery"),
        "questions": item.get("questions"),
    }


def _reasoning(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": item["id"],
        "summary": list(item.get("summary_text") or ()),
        "content": list(item.get("raw_content") or ()),
    }


def _command(item: Mapping[str, Any]) -> dict[str, Any]:
    command = list(item.get("command") or ())
    return {
        "type": "commandExecution",
        "id": item["id"],
        "pluginId": None,
        "scriptPath": None,
        "command": command_line(command),
        "cwd": _path(item.get("cwd")),
        "processId": None if item.get("source") == "user_shell" else item.get("process_id"),
        "source": camel(str(item.get("source") or "agent")),
        "status": camel(str(item.get("status") or "in_progress")),
        "commandActions": command_actions(item.get("parsed_cmd") or (), command, _path(item.get("cwd"))),
        "aggregatedOutput": item.get("aggregated_output") or None,
        "exitCode": item.get("exit_code") if item.get("status") != "declined" else None,
        "durationMs": _milliseconds(item.get("duration")) if item.get("status") != "declined" else None,
    }


def command_actions(parsed: Sequence[Mapping[str, Any]], command: Sequence[str], cwd: str) -> list[dict[str, Any]]:
    """Return the known actions of a command."""
    return [_action(part, cwd) for part in parsed] or [{"type": "unknown", "command": command_line(command)}]


def _action(part: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    command = str(part.get("cmd") or part.get("command") or "")
    path = part.get("path")
    match part.get("type"):
        case "read" if path:
            absolute = path if str(path).startswith("/") else f"{cwd}/{path}"
            return {"type": "read", "command": command, "name": part.get("name") or "", "path": absolute}
        case "list_files":
            return {"type": "listFiles", "command": command, "path": path}
        case "search":
            return {"type": "search", "command": command, "query": part.get("query"), "path": path}
        case _:
            return {"type": "unknown", "command": command}


def _file_change(item: Mapping[str, Any]) -> dict[str, Any]:
    changes = [_changed_file(path, change) for path, change in sorted((item.get("changes") or {}).items())]
    status = camel(str(item.get("status") or "in_progress"))
    return {"type": "fileChange", "id": item["id"], "changes": changes, "status": status}


def _changed_file(path: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return one file of a patch."""
    kind = str(change.get("type"))
    if kind == "update":
        shown: dict[str, Any] = {"type": "update", "move_path": change.get("move_path")}
        return {"path": path, "kind": shown, "diff": change.get("unified_diff") or ""}
    return {"path": path, "kind": {"type": kind}, "diff": change.get("content") or ""}


def _mcp_tool_call(item: Mapping[str, Any]) -> dict[str, Any]:
    result, error = item.get("result"), item.get("error")
    return {
        "type": "mcpToolCall",
        "id": item["id"],
        "server": item.get("server") or "",
        "tool": item.get("tool") or "",
        "status": camel(str(item.get("status") or "in_progress")),
        "arguments": item.get("arguments"),
        "appContext": None,
        "pluginId": item.get("plugin_id"),
        "readOnlyHint": None,
        "result": _mcp_result(result) if isinstance(result, Mapping) else None,
        "error": {"message": str(error.get("message", ""))} if isinstance(error, Mapping) else None,
        "durationMs": _milliseconds(item.get("duration")),
    }


def _mcp_result(result: Mapping[str, Any]) -> dict[str, Any]:
    structured = result.get("structured_content", result.get("structuredContent"))
    return {"content": list(result.get("content") or ()), "structuredContent": structured, "_meta": result.get("_meta")}


def _web_search(item: Mapping[str, Any]) -> dict[str, Any]:
    action = item.get("action")
    shown = {**action, "type": camel(str(action.get("type")))} if isinstance(action, Mapping) else None
    if shown is not None and shown["type"] not in ("search", "openPage", "findInPage"):
        shown = {"type": "other"}
    return {"type": "webSearch", "id": item["id"], "query": item.get("query") or "", "action": shown, "results": None}


def _image_generation(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "imageGeneration",
        "id": item["id"],
        "status": item.get("status") or "",
        "revisedPrompt": item.get("revised_prompt"),
        "result": item.get("result") or "",
        "savedPath": item.get("saved_path"),
    }


def _review_end(item: Mapping[str, Any]) -> dict[str, Any]:
    output = item.get("review_output")
    text = _review_text(output) if isinstance(output, Mapping) else ""
    return {"type": "exitedReviewMode", "id": item["id"], "review": text or "Reviewer failed to output a response."}


def _review_text(output: Mapping[str, Any]) -> str:
    findings = output.get("findings") or ()
    head = "Full review comments:" if len(findings) > 1 else "Review comment:"
    blocks = [str(output.get("overall_explanation") or "").strip(), head if findings else ""]
    return "\n\n".join(filter(None, (*blocks, *map(_finding_text, findings))))


def _finding_text(finding: Mapping[str, Any]) -> str:
    place = finding["code_location"]
    lines = place["line_range"]
    body = "".join(f"\n  {line}" for line in str(finding["body"]).splitlines())
    return f"- {finding['title']} — {place['absolute_file_path']}:{lines['start']}-{lines['end']}{body}"


def _tool_output(item: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: item.get(name) for name in ("id", "name", "namespace", "output")}
    return {"type": "functionCallOutput", **shown}


def _agent_call(item: Mapping[str, Any]) -> dict[str, Any]:
    states = item.get("agents_states") or {}
    return {
        "type": "collabAgentToolCall",
        "id": item["id"],
        "tool": camel(str(item.get("tool"))),
        "status": camel(str(item.get("status"))),
        "senderThreadId": item.get("sender_thread_id") or "",
        "receiverThreadIds": list(item.get("receiver_thread_ids") or ()),
        "prompt": item.get("prompt"),
        "model": item.get("model"),
        "reasoningEffort": item.get("reasoning_effort"),
        "agentsStates": {agent: _agent_state(status) for agent, status in states.items()},
    }


def _agent_state(status: object) -> dict[str, Any]:
    """Return a ``CollabAgentState``. A status is a word, or a mapping from the word to a message."""
    word, message = next(iter(status.items())) if isinstance(status, Mapping) else (status, None)
    return {"status": camel(str(word)), "message": message}


def _agent_activity(item: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "kind", "agent_thread_id", "agent_path", "model", "reasoning_effort")
    return {"type": "subAgentActivity", **{camel(name): item.get(name) for name in names}}


_KINDS: Mapping[str, Any] = {
    "UserMessage": _user_message,
    "AgentMessage": _agent_message,
    "Reasoning": _reasoning,
    "CommandExecution": _command,
    "FileChange": _file_change,
    "McpToolCall": _mcp_tool_call,
    "WebSearch": _web_search,
    "ImageGeneration": _image_generation,
    "ImageView": lambda item: {"type": "imageView", "id": item["id"], "path": _path(item.get("path"))},
    "Plan": lambda item: {"type": "plan", "id": item["id"], "text": item.get("text") or ""},
    "ContextCompaction": lambda item: {"type": "contextCompaction", "id": item["id"]},
    "EnteredReviewMode": lambda item: {
        "type": "enteredReviewMode",
        "id": item["id"],
        "review": str(item.get("user_facing_hint") or ""),
    },
    "ExitedReviewMode": _review_end,
    "FunctionCallOutput": _tool_output,
    "CollabAgentToolCall": _agent_call,
    "SubAgentActivity": _agent_activity,
    "clock.sleep": lambda item: {"type": "sleep", "id": item["id"], "durationMs": item.get("durationMs") or 0},
}


def camel(word: str) -> str:
    """Return a ``snake_case`` word in ``camelCase``."""
    first, *rest = word.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def camel_keys(value: Any) -> Any:
    """Return JSON data with the keys of all objects in ``camelCase``."""
    if isinstance(value, Mapping):
        return {camel(str(key)): camel_keys(part) for key, part in value.items()}
    return [camel_keys(part) for part in value] if isinstance(value, (list, tuple)) else value


def _path(value: object) -> str:
    """Return a path that may be a ``file:`` URL."""
    text = str(value or "")
    return unquote(urlsplit(text).path) if text.startswith("file:") else text


def _milliseconds(duration: object) -> int | None:
    if isinstance(duration, Mapping):
        return int(duration.get("secs", 0)) * 1000 + int(duration.get("nanos", 0)) // 1_000_000
    return None
