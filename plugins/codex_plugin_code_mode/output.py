"""The output of ``exec`` and ``wait`` for the model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from codex_framework import InputImage, InputText, ToolContext, ToolOutput
from codex_framework.contract.protocol.items import ContentItem
from codex_framework.toolkit.truncation import line_count, token_count

__all__ = ["NO_AUDIO", "failure", "image_part", "report"]

_DEFAULT_TOKENS = 10_000
_LONGEST = 1 << 20
"""Most text of one output before it is shortened, in bytes (Codex's)."""

NO_AUDIO = "audio content omitted because you do not support audio input"
_NO_IMAGES = "image content omitted because you do not support image input"
_BAD_IMAGE = "image content omitted because it could not be processed"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)


def image_part(url: str, *, sees: bool) -> ContentItem:
    """Return an image of a script for the model, or a text that says why it is missing.

    Args:
        url: A ``data:`` URL. The type of the image is taken from its content.
        sees: Whether the model takes images.
    """
    if not sees:
        return InputText(_NO_IMAGES)
    head, _, data = url.partition(",")
    if not head.lower().endswith(";base64"):
        return InputText(_BAD_IMAGE)
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return InputText(_BAD_IMAGE)
    kind = next((kind for start, kind in _SIGNATURES if content.startswith(start)), "")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    return InputImage(f"data:{kind};base64,{data}") if kind else InputText(_BAD_IMAGE)


def failure(text: str) -> InputText:
    """Return the part that tells why a script failed."""
    return InputText(f"Script error:\n{text}")


def report(
    status: str,
    parts: Sequence[ContentItem],
    context: ToolContext,
    *,
    seconds: float,
    max_tokens: int | None,
    omitted: int = 0,
    success: bool = True,
) -> ToolOutput:
    """Return the output of a call.

    Args:
        status: The state of the script: ``Script completed``.
        parts: Its output since the last call.
        seconds: The duration of the call.
        max_tokens: Maximum number of tokens of text. By default, the usual value.
        omitted: Bytes of text that were already left out.
    """
    head = InputText(f"{status}\nWall time {seconds:.1f} seconds\nOutput:\n")
    if not parts:
        return ToolOutput(head.text, success=success, truncate=False)
    parts = _shorten_parts(parts, context, _DEFAULT_TOKENS if max_tokens is None else max_tokens, omitted)
    return ToolOutput((head, *(part for part in parts if getattr(part, "text", "x"))), success=success, truncate=False)


def _shorten_parts(
    parts: Sequence[ContentItem], context: ToolContext, max_tokens: int, omitted: int
) -> Sequence[ContentItem]:
    """Return the parts, with all texts as one shortened text if they are too long together."""
    texts = [part.text for part in parts if isinstance(part, InputText)]
    whole = context.redact("\n".join(texts))
    size = len(whole.encode("utf-8", "surrogatepass"))
    if size > _LONGEST:
        omitted += size - _LONGEST
        whole = whole.encode("utf-8", "surrogatepass")[:_LONGEST].decode("utf-8", "ignore")
        size = _LONGEST
    short = context.limit_text(whole, max_tokens=max_tokens)
    if short == whole and not omitted:
        return parts
    if short != whole:
        lines = f"Total output lines: {line_count(whole)}"
        short = f"Warning: truncated output (original token count: {token_count(size)})\n{lines}\n\n{short}"
    others = [part for part in parts if not isinstance(part, InputText)]
    told = [InputText(f"[output limit of scripts reached: {omitted} bytes of text left out]")] if omitted else []
    return [InputText(short), *told, *others]
