"""The result of a call: as the model reads it, and as clients see it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import InputImage, InputText, ModelInfo
from codex_plugin_mcp.images import image_problem

__all__ = ["MAX_EVENT_BYTES", "for_clients", "for_model", "heading"]

MAX_EVENT_BYTES = 1 << 20
"""Maximum size of a result in events, in bytes (Codex: 1 MiB)."""

_NO_IMAGES = "<image content omitted because you do not support image input>"
_NO_AUDIO = "<audio content omitted because you do not support audio input>"
_DETAILS = ("low", "high", "original", "auto")


def heading(seconds: float) -> str:
    """Return the first line of an output for the model."""
    return f"Wall time: {seconds:.4f} seconds\nOutput:"


def for_model(result: Mapping[str, Any], seconds: float, model: ModelInfo) -> str | tuple[InputText | InputImage, ...]:
    """Return the output for the model: the structured content if there is any, and otherwise each part of the content.

    Args:
        result: The server's ``CallToolResult``.
        seconds: How long the call took.
    """
    structured = result.get("structuredContent")
    if structured is not None:
        return f"{heading(seconds)}\n{_json(structured)}"
    return (InputText(heading(seconds)), *(_part(block, model) for block in _blocks(result)))


def _blocks(result: Mapping[str, Any]) -> Sequence[Any]:
    content = result.get("content")
    return content if isinstance(content, list) else []


def _part(block: Any, model: ModelInfo) -> InputText | InputImage:
    if not isinstance(block, Mapping):
        return InputText(_json(block))
    match block.get("type"):
        case "text":
            text = block.get("text")
            return InputText(text if isinstance(text, str) else "")
        case "image":
            return _image(block, model)
        case "audio":
            return InputText(_NO_AUDIO)
        case _:
            return InputText(_json(_without_blob(block)))


def _image(block: Mapping[str, Any], model: ModelInfo) -> InputText | InputImage:
    if not model.supports_images:
        return InputText(_NO_IMAGES)
    data, kind = block.get("data"), block.get("mimeType")
    problem = image_problem(data, kind)
    if problem is not None:
        return InputText(f"<image content omitted: {problem}>")
    detail = _mapping(block.get("_meta")).get("codex/imageDetail")
    if detail not in _DETAILS or (detail == "original" and not model.image_detail_original):
        detail = "original" if model.image_detail_original else "high"
    return InputImage(f"data:{kind};base64,{data}", detail)


def _without_blob(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an embedded resource without its bytes, which a model cannot read."""
    resource = block.get("resource")
    if not isinstance(resource, Mapping) or not isinstance(resource.get("blob"), str):
        return block
    note = f"<{len(resource['blob']) * 3 // 4} bytes omitted>"
    return {**block, "resource": {**resource, "blob": note}}


def for_clients(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for events, at most 1 MiB: ``content``, and if present ``structuredContent``, ``isError`` and ``_meta``."""
    shown: dict[str, Any] = {"content": list(_blocks(result))}
    for key in ("structuredContent", "isError", "_meta"):
        if result.get(key) is not None:
            shown[key] = result[key]
    size = len(_json(shown).encode("utf-8", "replace"))
    if size <= MAX_EVENT_BYTES:
        return shown
    note = f"… {size} bytes in all; the result is too large for an event"
    text = "\n".join(_texts(result))[: MAX_EVENT_BYTES // 8]
    short: dict[str, Any] = {"content": [{"type": "text", "text": f"{text}\n{note}" if text else note}]}
    return {**short, "isError": result["isError"]} if result.get("isError") is not None else short


def _texts(result: Mapping[str, Any]) -> Iterator[str]:
    for block in _blocks(result):
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            yield block["text"]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
