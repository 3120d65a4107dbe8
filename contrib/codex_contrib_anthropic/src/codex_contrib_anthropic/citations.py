"""Texts of the model with their sources. Servers cut a text with sources into several blocks, which readers see as one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import ResponseItem
from codex_framework.contract.protocol.items import Reasoning
from codex_lib_model_client.message_texts import utf8
from codex_lib_model_client.private_data import marked, private_data

__all__ = ["API", "cited_blocks", "kept_texts", "links"]

API = "messages"
"""The API whose private data is in reasoning items. No other API gets it."""

_TITLE = 80
"""Maximum number of characters shown of a source's title."""

_ESCAPES = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": "", "\r": ""})
_BRACKETS = str.maketrans({"[": "(", "]": ")", "\n": " ", "\r": " "})


def links(citations: Sequence[Any]) -> str:
    """Return the links to the sources of a text, to be added to it. Empty if no source has an address."""
    found: dict[str, str] = {}
    for citation in citations:
        url = citation.get("url") if isinstance(citation, Mapping) else None
        if isinstance(url, str) and url.startswith(("https://", "http://")):
            found.setdefault(url.translate(_ESCAPES), _title(citation.get("title"), url))
    if not found:
        return ""
    return f" ({', '.join(f'[{title}]({url})' for url, title in found.items())})"


def _title(title: Any, url: str) -> str:
    shown = str(title or "").translate(_BRACKETS).strip() or url.split("/")[2]
    return shown if len(shown) <= _TITLE else f"{shown[: _TITLE - 1]}…"


def kept_texts(item_id: str, response: str, texts: Sequence[Mapping[str, Any]], *, linked: bool) -> Reasoning:
    """Return the item that precedes a message and keeps the blocks of which it was made.

    Args:
        texts: The blocks: ``text``, and ``citations`` if there are some.
        linked: Whether the message has links to the sources in it.
    """
    return Reasoning(item_id, (), extra=marked(API, {"response": response, "texts": list(texts), "linked": linked}))


def cited_blocks(before: ResponseItem, text: str) -> list[bytes]:
    """Return the blocks of which a message was made. Empty if they are unknown, or if the message has been changed since.

    Args:
        before: The item before the message.
        text: The text of the message.
    """
    mark = private_data(before, API)
    texts = None if mark is None else mark.get("texts")
    if mark is None or not isinstance(texts, Sequence):
        return []
    blocks = [each for each in texts if isinstance(each, Mapping) and isinstance(each.get("text"), str)]
    if text != "".join(each["text"] + (links(_sources(each)) if mark.get("linked") else "") for each in blocks):
        return []
    return [utf8(_block(each)) for each in blocks if each["text"].strip()]  # servers refuse blanks


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    sources = _sources(block)
    return {"type": "text", "text": block["text"], **({"citations": sources} if sources else {})}


def _sources(block: Mapping[str, Any]) -> list[Any]:
    sources = block.get("citations")
    return list(sources) if isinstance(sources, Sequence) and not isinstance(sources, str) else []
