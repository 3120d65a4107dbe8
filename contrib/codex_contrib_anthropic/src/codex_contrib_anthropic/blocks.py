"""Items of the conversation as content blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from codex_contrib_anthropic.album import Album
from codex_contrib_anthropic.citations import API, cited_blocks
from codex_contrib_anthropic.server_blocks import Pairs, block_of, kept_name
from codex_framework import FunctionCall, InputImage, Message, ResponseItem
from codex_framework.contract.protocol.items import (
    CallItem,
    ContentItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    OutputItem,
    Reasoning,
)
from codex_lib_model_client.call_pairing import ID_CHARACTERS, SentCallIds, SentIds
from codex_lib_model_client.functions import function_call
from codex_lib_model_client.message_texts import NO_OUTPUT, is_instruction, part_text, text_of, utf8
from codex_lib_model_client.private_data import private_data

__all__ = [
    "answer_blocks",
    "said_blocks",
    "sent_ids",
    "thoughts_in",
    "words_blocks",
]


def words_blocks(item: Message, album: Album | None) -> list[bytes]:
    """Return the blocks of a message of the user or the developer. A developer's text is marked as such.

    Args:
        album: The images that are sent. None if the model takes no images.
    """
    blocks = [utf8(block) for block in _content(item.content, album)]
    if not is_instruction(item):
        return blocks
    text = text_of(item.content)
    return [utf8(_text(f"<developer_message>\n{text}\n</developer_message>"))] if text.strip() else []


def sent_ids(items: Iterable[ResponseItem], taken: Collection[str]) -> SentIds:
    """Return the ids of the calls and outputs of a group, as this API has them.

    Args:
        taken: The ids of earlier calls.
    """
    return SentCallIds(ID_CHARACTERS, taken).of_items(items)


def thoughts_in(items: Iterable[ResponseItem]) -> frozenset[str]:
    """Return the signatures, or the encrypted forms, of the thoughts among some items."""
    marks = (private_data(item, API) for item in items if isinstance(item, Reasoning))
    return frozenset(sign for mark in marks if mark is not None and (sign := _signature(mark)))


def said_blocks(
    items: Sequence[ResponseItem],
    tools: Iterable[str],
    refused: Collection[str],
    pairs: Pairs,
    going_on: Collection[str] = (),
) -> list[bytes]:
    """Return the blocks of one message of the model, in order. Servers refuse a message that ends with a thought.

    Args:
        tools: The ids of its calls (see :func:`sent_ids`).
        refused: The parts to leave out: thoughts (see :func:`thoughts_in`), and data kept in items (see :func:`kept_name`).
        pairs: Pairs the calls that the server runs itself.
        going_on: The calls that the server still runs.
    """
    ids = iter(tools)
    blocks: list[bytes] = []
    whole = server_end = 0
    before: ResponseItem | None = None
    for place, item in enumerate(items):
        match item:
            case Message(role="assistant", content=content) if (text := text_of(content)).strip():
                cited = [] if before is None or kept_name(before) in refused else cited_blocks(before, text)
                blocks.extend(cited or [utf8(_text(text))])
                whole = len(blocks)
            case Reasoning():
                following = items[place + 1] if place + 1 < len(items) else None
                if (kept := block_of(item)) is not None:
                    if kept_name(item) not in refused and (encoded := pairs.add(kept)) is not None:
                        blocks.append(encoded)
                        whole = server_end = len(blocks)
                elif block := _thinking(item, following, refused):
                    blocks.append(utf8(block))
            case FunctionCall() | CustomToolCall() | LocalShellCall():
                blocks.append(_use(next(ids), item))
                whole = len(blocks)
            case _:
                pass  # the outputs, what came in between, and items of servers that run tools themselves
        before = item
    del blocks[whole:]
    blocks[server_end:server_end] = pairs.failures(going_on)
    return blocks


def answer_blocks(items: Sequence[ResponseItem], ids: SentIds, album: Album | None) -> list[bytes]:
    """Return the blocks of the outputs, in the order of the calls, and of what came in between.

    Args:
        ids: The ids of the calls and outputs (see :func:`sent_ids`).
        album: As for :func:`words_blocks`.
    """
    outputs = [item for item in items if isinstance(item, (FunctionCallOutput, CustomToolCallOutput))]
    found = dict(zip(ids.outputs, outputs, strict=True))
    blocks = [utf8(_result(call_id, found[call_id], album)) for call_id in ids.calls if call_id in found]
    for item in items:
        if isinstance(item, Message) and item.role != "assistant":
            blocks.extend(words_blocks(item, album))
    return blocks


def _use(call_id: str, call: CallItem) -> bytes:
    name, arguments = function_call(call)
    head = utf8({"type": "tool_use", "id": call_id, "name": name})
    return head[:-1] + b',"input":' + arguments.encode("utf-8", "replace") + b"}"


def _result(call_id: str, output: OutputItem, album: Album | None) -> dict[str, Any]:
    content: str | list[dict[str, Any]]
    if isinstance(output.output, str):
        content = output.output if output.output.strip() else NO_OUTPUT
    else:
        content = _content(output.output, album) or NO_OUTPUT
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def _signature(mark: Mapping[str, Any]) -> str:
    return str(mark.get("redacted") or mark.get("signature") or "")


def _thinking(item: Reasoning, following: ResponseItem | None, refused: Collection[str]) -> dict[str, Any] | None:
    """Return the block of reasoning, or None if it is refused, from another API, or all that is left of a response that broke off."""
    mark = private_data(item, API)
    if mark is None or _signature(mark) in refused:
        return None
    other = None if following is None else private_data(following, API)
    if other is not None and other.get("response") != mark.get("response"):
        return None
    if isinstance(mark.get("redacted"), str):
        return {"type": "redacted_thinking", "data": mark["redacted"]}
    signature = mark.get("signature")
    if not isinstance(signature, str) or not signature:
        return None
    return {"type": "thinking", "thinking": str(mark.get("text", _summary(item))), "signature": signature}


def _summary(item: Reasoning) -> str:
    return "".join(str(part.get("text", "")) for part in item.summary)


def _content(parts: Sequence[ContentItem], album: Album | None) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        block = album.block(part) if isinstance(part, InputImage) and album is not None else _text(part_text(part))
        if block.get("text", "-").strip():  # servers refuse blocks of blanks
            blocks.append(block)
    return blocks


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
