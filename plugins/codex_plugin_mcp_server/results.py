"""Results of tools as the protocol has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import CodexError, InputImage, InputText, OutputText, ToolOutput
from codex_framework.contract.protocol.items import ContentItem
from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_mcp_server.encoding import sendable

__all__ = ["called", "error_text", "failure", "success"]

_DETAILS = "codex/details"
"""The key in ``_meta`` of a tool's details for clients."""


def error_text(error: CodexError) -> str:
    """Return the text of an error with its advice."""
    return f"{error}\n{error.hint}" if error.hint else str(error)


def success(text: str, *, thread_id: str) -> Mapping[str, Any]:
    """Return the result of a turn."""
    content = {"threadId": thread_id, "content": text}
    return {"resultType": "complete", "content": [_text(text)], "structuredContent": content, "isError": False}


def failure(text: str, *, thread_id: str | None = None) -> Mapping[str, Any]:
    """Return the result of a turn, or of a call, that failed."""
    result: dict[str, Any] = {"resultType": "complete", "content": [_text(text)], "isError": True}
    if thread_id is not None:
        result["structuredContent"] = {"threadId": thread_id, "content": text}
    return result


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "text": text}


def called(output: ToolOutput) -> Mapping[str, Any]:
    """Return the result of a call of a plugin's tool.

    Raises:
        TypeError, ValueError: The tool's result is not JSON data.
    """
    parts = output.content if isinstance(output.content, tuple) else (InputText(output.content),)
    result: dict[str, Any] = {
        "resultType": "complete",
        "content": [_block(part) for part in parts],
        "isError": not output.success,
    }
    if output.details is not None:
        result["_meta"] = {_DETAILS: to_wire(output.details)}
    return sendable(result)


def _block(part: ContentItem) -> Mapping[str, Any]:
    match part:
        case InputText(text=text) | OutputText(text=text):
            return _text(text)
        case InputImage(image_url=url):
            return _image(url)
        case _:
            return _unknown(part.raw)


def _image(url: str) -> Mapping[str, Any]:
    head, comma, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64") and comma:
        return {"type": "image", "data": data, "mimeType": head[len("data:") : -len(";base64")].partition(";")[0]}
    return {"type": "resource_link", "uri": url, "name": "image"}


_BLOCKS: Mapping[str, Mapping[str, type]] = {
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": Mapping},
    "resource_link": {"uri": str, "name": str},
}
"""The blocks of the protocol that a tool may return unchanged, and their required fields."""


def _unknown(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part that is unknown in the model's protocol. A block of this protocol is unchanged."""
    import json

    block: dict[str, Any] = to_wire(raw)
    required = _BLOCKS.get(str(block.get("type")))
    if required is None or not all(isinstance(block.get(name), kind) for name, kind in required.items()):
        return _text(json.dumps(block, ensure_ascii=False))
    if "resource" in required and not _is_resource(block["resource"]):
        return _text(json.dumps(block, ensure_ascii=False))
    return {name: block[name] for name in ("type", *required)}


def _is_resource(resource: Mapping[str, Any]) -> bool:
    """Return whether it has an address, and a text or Base64."""
    content = resource.get("text", resource.get("blob"))
    return isinstance(resource.get("uri"), str) and isinstance(content, str)
