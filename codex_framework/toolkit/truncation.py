"""Truncation of text for the model: the first half, a marker, and the last half."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.contract.protocol.items import ContentItem, InputText

__all__ = ["budget_bytes", "line_count", "token_count", "truncate", "truncate_content", "truncate_with_lines"]

BYTES_PER_TOKEN = 4
"""Codex's estimate of the size of a token."""

_WIDEST = 4
"""Bytes of the longest character in UTF-8."""


def token_count(size: int) -> int:
    """Estimate the number of tokens in ``size`` bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def line_count(text: str) -> int:
    """Count lines, including a last line without a line end."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def budget_bytes(policy: tuple[str, int], max_tokens: int | None = None) -> int:
    """Return the number of bytes that a policy allows.

    Args:
        policy: ``("tokens", n)`` or ``("bytes", n)``.
        max_tokens: A smaller limit. Larger values have no effect, and by default there is no further limit.
    """
    kind, limit = policy
    size = limit * BYTES_PER_TOKEN if kind == "tokens" else limit
    return size if max_tokens is None else min(size, max(max_tokens, 0) * BYTES_PER_TOKEN)


def truncate(text: str, policy: tuple[str, int], *, max_tokens: int | None = None) -> str:
    """Return ``text``, or its beginning and end with a marker between them that states how much is missing.

    The beginning and the end each take half of the budget. The marker is ``…N tokens truncated…``, where N is the number of
    missing bytes divided by 4, rounded up; for a policy in bytes without ``max_tokens`` it is ``…N chars truncated…``.
    Characters are never split.
    """
    budget = budget_bytes(policy, max_tokens)
    if len(text) * _WIDEST <= budget:
        return text
    in_tokens = policy[0] == "tokens" or max_tokens is not None
    if text.isascii():
        size = len(text)
        if size <= budget:
            return text
        head, tail = text[: budget // 2], text[size - (budget - budget // 2) :]
    else:
        data = text.encode("utf-8", "surrogatepass")
        size = len(data)
        if size <= budget:
            return text
        head, tail = _halves(data, budget)
    missing = f"{token_count(size - budget)} tokens" if in_tokens else f"{len(text) - len(head) - len(tail)} chars"
    return f"{head}…{missing} truncated…{tail}"


def _halves(data: bytes, budget: int) -> tuple[str, str]:
    end = budget // 2
    start = len(data) - (budget - end)
    while end > 0 and _within_char(data, end):
        end -= 1
    while start < len(data) and _within_char(data, start):
        start += 1
    return data[:end].decode("utf-8", "surrogatepass"), data[start:].decode("utf-8", "surrogatepass")


def _within_char(data: bytes, index: int) -> bool:
    return data[index] & 0xC0 == 0x80


def truncate_with_lines(text: str, policy: tuple[str, int]) -> str:
    """Truncate a text; if it was shortened, put ``Total output lines: N`` and an empty line before it."""
    short = truncate(text, policy)
    return text if short is text else f"Total output lines: {line_count(text)}\n\n{short}"


def truncate_content(content: Iterable[ContentItem], policy: tuple[str, int]) -> tuple[ContentItem, ...]:
    """Truncate content parts to a shared budget. Texts use the budget in order, and images are always kept.

    The first text that does not fit is shortened, later texts are omitted, and a last part states how many.
    """
    left = budget_bytes(policy)
    kept: list[ContentItem] = []
    omitted = 0
    for part in content:
        if not isinstance(part, InputText):
            kept.append(part)
            continue
        size = len(part.text.encode("utf-8", "surrogatepass"))
        if size <= left:
            kept.append(part)
            left -= size
        elif left > 0:
            limit = left // BYTES_PER_TOKEN if policy[0] == "tokens" else left
            kept.append(part.evolve(text=truncate(part.text, (policy[0], limit))))
            left = 0
        else:
            omitted += 1
    if omitted:
        kept.append(InputText(f"[omitted {omitted} text items ...]"))
    return tuple(kept)
