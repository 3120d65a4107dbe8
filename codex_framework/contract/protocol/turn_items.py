"""Turn items: items of the history as clients see them, and the equivalent older events.

A turn item (wire: ``TurnItem``) is a mapping with ``type`` and ``id``. Clients get it in ``item_started`` and ``item_completed``.
Clients that predate turn items read events such as ``agent_message`` and ``web_search_end``; :func:`older_start` and
:func:`older_events` derive these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.message import (
    AgentMessageEvent,
    AgentReasoningEvent,
    AgentReasoningRawContentEvent,
    UserMessageEvent,
)
from codex_framework.contract.protocol.events.thread import ContextCompactedEvent
from codex_framework.contract.protocol.events.tool import (
    ImageGenerationBeginEvent,
    ImageGenerationEndEvent,
    ToolCallBeginEvent,
    ToolCallEndEvent,
    WebSearchBeginEvent,
    WebSearchEndEvent,
)
from codex_framework.contract.protocol.items import Message, Reasoning, ResponseItem, UnknownItem, message_text
from codex_framework.contract.protocol.ops import ByteRange, TextElement

__all__ = ["item_text", "older_events", "older_start", "tool_call_item", "turn_item"]

_DEEPEST = 100
"""Levels of a call's arguments that are shown as JSON. Codex reads lines of at most 128 levels, which includes those around them."""


def turn_item(item: ResponseItem) -> dict[str, Any] | None:
    """Return the turn item for an item of the model, or None if clients do not see it as a turn item."""
    match item:
        case Message(role="assistant"):
            shown: dict[str, Any] = {
                "type": "AgentMessage",
                "id": item.id or "",
                "content": [{"type": "Text", "text": message_text(item)}],
            }
            if item.phase is not None:
                shown["phase"] = item.phase
            return shown
        case Reasoning():
            return {
                "type": "Reasoning",
                "id": item.id or "",
                "summary_text": [str(part.get("text", "")) for part in item.summary],
                "raw_content": [str(part.get("text", "")) for part in item.content or ()],
            }
        case UnknownItem(raw=raw) if item.kind == "web_search_call":
            action = raw.get("action")
            action = action if isinstance(action, Mapping) else {"type": "other"}
            return {
                "type": "WebSearch",
                "id": str(raw.get("id") or ""),
                "query": _query(action),
                "action": dict(action),
            }
        case UnknownItem(raw=raw) if item.kind == "image_generation_call":
            prompt = raw.get("revised_prompt")
            return {
                "type": "ImageGeneration",
                "id": str(raw.get("id") or ""),
                "status": str(raw.get("status") or ""),
                "revised_prompt": prompt if isinstance(prompt, str) else None,
                "result": _text(raw.get("result")),
            }
        case _:
            return None


def _query(action: Mapping[str, Any]) -> str:
    """Return the query of a web search: words, or an address."""
    match action.get("type"):
        case "search":
            queries = action.get("queries")
            several = queries[0] if isinstance(queries, (list, tuple)) and queries else ""
            return str(action.get("query") or several)
        case "open_page":
            return str(action.get("url") or "")
        case "find_in_page":
            return f"'{action.get('pattern') or ''}' in {action.get('url') or ''}"
        case _:
            return ""


def older_start(item: Mapping[str, Any]) -> EventMsg | None:
    """Return the older event that is equivalent to a turn item that has begun, if any."""
    match item.get("type"):
        case "WebSearch":
            return WebSearchBeginEvent(_text(item.get("id")))
        case "ImageGeneration":
            return ImageGenerationBeginEvent(_text(item.get("id")))
        case _:
            return None


def older_events(item: Mapping[str, Any], *, raw: bool = False) -> tuple[EventMsg, ...] | None:
    """Return the older events that are equivalent to a completed turn item, if any.

    Args:
        item: A turn item of this or any other version of Codex. Fields of an unexpected type are ignored.
        raw: Whether raw reasoning has events too.
    """
    match item.get("type"):
        case "UserMessage":
            return (_user_message(item),)
        case "AgentMessage":
            phase = item.get("phase")
            return (AgentMessageEvent(item_text(item), phase if isinstance(phase, str) else None),)
        case "Reasoning":
            summaries = map(AgentReasoningEvent, _texts(item.get("summary_text")))
            thoughts = map(AgentReasoningRawContentEvent, _texts(item.get("raw_content")) if raw else ())
            return (*summaries, *thoughts)
        case "WebSearch":
            action = item.get("action")
            action = action if isinstance(action, Mapping) else {"type": "other"}
            return (WebSearchEndEvent(_text(item.get("id")), _text(item.get("query")), action),)
        case "ImageGeneration":
            prompt, path = item.get("revised_prompt"), item.get("saved_path")
            return (
                ImageGenerationEndEvent(
                    _text(item.get("id")),
                    _text(item.get("status")),
                    prompt if isinstance(prompt, str) else None,
                    _text(item.get("result")),
                    path if isinstance(path, str) else None,
                ),
            )
        case "ContextCompaction":
            return (ContextCompactedEvent(),)
        case _:
            return None


def _user_message(item: Mapping[str, Any]) -> UserMessageEvent:
    images = [part for part in _parts(item) if isinstance(part.get("image_url"), str)]
    local = [part for part in _parts(item) if isinstance(part.get("path"), str)]
    client_id = item.get("client_id")
    return UserMessageEvent(
        item_text(item),
        tuple(part["image_url"] for part in images) or None,
        tuple(part["path"] for part in local),
        client_id=client_id if isinstance(client_id, str) else None,
        image_details=_details(images),
        local_image_details=_details(local),
        text_elements=tuple(_elements(item)) or None,
    )


def _details(images: list[dict[str, Any]]) -> tuple[str | None, ...] | None:
    details = tuple(_text(image.get("detail")) or None for image in images)
    return details if any(details) else None


def _elements(item: Mapping[str, Any]) -> Iterator[TextElement]:
    """Yield the elements of all texts, at their places in the joined text."""
    offset = 0
    for part in _parts(item):
        for element in part.get("text_elements") or ():
            match element:
                case {"byte_range": {"start": int(start), "end": int(end)}}:
                    shown = element.get("placeholder")
                    place = ByteRange(start + offset, end + offset)
                    yield TextElement(place, shown if isinstance(shown, str) else None)
        offset += len(_text(part.get("text")).encode("utf-8", "surrogatepass"))


def item_text(item: Mapping[str, Any]) -> str:
    """Return the text of a message's turn item, its parts joined without a separator, or a summary's parts, one per line."""
    if item.get("type") == "Reasoning":
        return "\n".join(_texts(item.get("summary_text")))
    return "".join(part["text"] for part in _parts(item) if isinstance(part.get("text"), str))


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, (list, tuple)) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, (list, tuple)) else []


def tool_call_item(msg: ToolCallBeginEvent | ToolCallEndEvent) -> dict[str, Any]:
    """Return a call of a plugin's tool as a call to a server with the plugin's name, which is an item that Codex's clients know."""
    item = {
        "type": "McpToolCall",
        "id": msg.call_id,
        "server": msg.plugin,
        "tool": msg.tool,
        "arguments": _arguments(msg.arguments),
    }
    if isinstance(msg, ToolCallBeginEvent):
        return {**item, "status": "in_progress"}
    if msg.success:
        return {**item, "status": "completed", "result": {"content": [{"type": "text", "text": msg.output}]}}
    return {**item, "status": "failed", "error": {"message": msg.output or f"{msg.tool} failed"}}


def _arguments(text: str) -> Any:
    """Return a call's arguments as JSON data, or as text if they are not JSON or nested too deeply."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if _is_deep(value) else value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        containers = [each for each in level if isinstance(each, (dict, list))]
        if not containers:
            return False
        level = [part for each in containers for part in (each.values() if isinstance(each, dict) else each)]
    return True
