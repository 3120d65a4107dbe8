"""The result of a call: as the model reads it, and as clients see it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import InputImage, InputText, ModelInfo
from codex_framework.toolkit.truncation import truncate
from codex_plugin_mcp.images import read_image

__all__ = ["MAX_EVENT_BYTES", "for_clients", "for_model", "heading", "limit_tokens", "read_contents", "read_result"]

MAX_EVENT_BYTES = 1 << 20
"""Maximum size of a result in events, in bytes (Codex: 1 MiB)."""

_NO_IMAGES = "<image content omitted because you do not support image input>"
_NO_AUDIO = "<audio content omitted because you do not support audio input>"
_DETAILS = ("low", "high", "original", "auto")


def heading(seconds: float) -> str:
    """Return the first line of an output for the model."""
    return f"Wall time: {seconds:.4f} seconds\nOutput:"


def read_result(answer: Any) -> Mapping[str, Any]:
    """Return the answer to a call as a ``CallToolResult`` whose ``content`` is a list of objects, whatever the server sent.

    Before the revision 2024-11-05, an answer had any value as ``toolResult`` in place of ``content``.
    """
    if not isinstance(answer, Mapping):
        return {"content": read_contents(answer)}
    if answer.get("content") is None and answer.get("structuredContent") is None and "toolResult" in answer:
        rest = {name: value for name, value in answer.items() if name != "toolResult"}
        older = answer["toolResult"]
        if isinstance(older, Mapping) and "content" in older:
            return {**rest, **read_result(older)}
        return {**rest, "content": read_contents(older)}
    return {**answer, "content": read_contents(answer.get("content"))}


def read_contents(value: Any) -> list[Mapping[str, Any]]:
    """Return contents as objects. A text or another single value becomes a content of the type ``text``."""
    if value is None:
        return []
    return [
        part if isinstance(part, Mapping) else {"type": "text", "text": part if isinstance(part, str) else _json(part)}
        for part in (value if isinstance(value, list) else [value])
    ]


def for_model(result: Mapping[str, Any], seconds: float, model: ModelInfo) -> str | tuple[InputText | InputImage, ...]:
    """Return the output for the model: the structured content if there is any, and each part of the content that differs from it.

    Args:
        result: The server's ``CallToolResult``, whose ``content`` is a list of objects.
        seconds: How long the call took.
    """
    structured = result.get("structuredContent")
    if structured is None:
        return (InputText(heading(seconds)), *(_part(block, model) for block in result["content"]))
    beside = _without_repetition(result["content"], structured)
    if not beside:
        return f"{heading(seconds)}\n{_json(structured)}"
    parts = (_part(block, model) for block in beside)
    return (InputText(heading(seconds)), InputText(_json(structured)), *parts)


def _without_repetition(blocks: Sequence[Mapping[str, Any]], structured: Any) -> Sequence[Mapping[str, Any]]:
    """Return the content without the texts that are the structured content once more.

    The structured content of a tool that returns no object is ``{"result": ...}``, and the text the result alone, or one text for
    each of its elements.
    """
    values = [structured]
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        result = structured["result"]
        values += [result, *(result if isinstance(result, list) else ())]
    return [block for block in blocks if block.get("type") != "text" or not _says_one_of(block.get("text"), values)]


def _says_one_of(text: Any, values: Sequence[Any]) -> bool:
    """Return whether a text is one of some values, or its JSON."""
    try:
        return text in values or json.loads(text) in values
    except (TypeError, ValueError, RecursionError):
        return False


def _part(block: Mapping[str, Any], model: ModelInfo) -> InputText | InputImage:
    match str(block.get("type", "text")).lower():
        case "text" if isinstance(block.get("text"), str):
            return InputText(block["text"])
        case "image":
            return _image(block, model)
        case "audio":
            return InputText(_NO_AUDIO)
        case _:
            return InputText(_json(_without_blob(block)))


def _image(block: Mapping[str, Any], model: ModelInfo) -> InputText | InputImage:
    if not model.supports_images:
        return InputText(_NO_IMAGES)
    image = read_image(block.get("data"), block.get("mimeType"))
    if image.problem:
        return InputText(f"<image content omitted: {image.problem}>")
    detail = _mapping(block.get("_meta")).get("codex/imageDetail")
    if detail not in _DETAILS or (detail == "original" and not model.image_detail_original):
        detail = "original" if model.image_detail_original else "high"
    return InputImage(image.url, detail)


def _without_blob(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an embedded resource without its bytes, which a model cannot read."""
    resource = block.get("resource")
    if not isinstance(resource, Mapping) or not isinstance(resource.get("blob"), str):
        return block
    note = f"<{len(resource['blob']) * 3 // 4} bytes omitted>"
    return {**block, "resource": {**resource, "blob": note}}


def limit_tokens(
    content: str | tuple[InputText | InputImage, ...], limit: int
) -> str | tuple[InputText | InputImage, ...]:
    """Return an output for the model whose texts have at most this number of tokens. The rest is dropped."""
    if isinstance(content, str):
        return truncate(content, ("tokens", limit))
    texts = "".join(part.text for part in content if isinstance(part, InputText))
    short = truncate(texts, ("tokens", limit))
    if short == texts:
        return content
    return (InputText(short), *(part for part in content if isinstance(part, InputImage)))


def for_clients(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for events, at most 1 MiB: ``content``, and if present ``structuredContent``, ``isError`` and ``_meta``."""
    shown: dict[str, Any] = {"content": list(result["content"])}
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
    for block in result["content"]:
        if isinstance(block.get("text"), str):
            yield block["text"]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
