"""The messages of the realtime server, as payloads of ``realtime_conversation_realtime``: ``{"KIND": content}``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from codex_plugin_realtime.audio import CHANNELS, SAMPLE_RATE

__all__ = ["NotJSONError", "Payload", "parsed"]

Payload: TypeAlias = dict[str, Any]
Message: TypeAlias = Mapping[str, Any]

_HANDOFF_TOOL, _SILENCE_TOOL = "background_agent", "remain_silent"
_REQUEST_KEYS = ("input_transcript", "input", "text", "prompt", "query")
"""Arguments of a hand-off that can be the user's request, the first that is there counts (Codex's list)."""

_DEEPEST = 64
"""The maximum nesting of an item. Much deeper items cannot be passed on."""

_TOO_DEEP = "the realtime server sent an error that is nested too deeply to be shown"

_U32 = 1 << 32
_U16 = 1 << 16


class NotJSONError(Exception):
    """A message is not a JSON object."""


def parsed(text: str, version: str) -> Payload | None:
    """Return the payload of a message, or None if it is of no interest, or lacks what makes it of interest.

    Raises:
        NotJSONError: It is not a JSON object.
    """
    try:
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise NotJSONError from None
    if not isinstance(message, dict):
        raise NotJSONError
    kind = message.get("type")
    reader = (_V1 if version == "v1" else _V2).get(kind) if isinstance(kind, str) else None
    payload = None if reader is None else reader(message)
    if payload is not None and (
        "\\ud" in text or "\\uD" in text
    ):  # perhaps half of a character, which cannot be written
        return {name: _repair_text(content) for name, content in payload.items()}
    return payload


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


def _repair_text(value: Any) -> Any:
    """Return a value of JSON in which half characters are question marks."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_repair_text(each) for each in value]
    if isinstance(value, dict):
        return {_repair_text(name): _repair_text(each) for name, each in value.items()}
    return value


def _text(message: Message, *names: str) -> str | None:
    for name in names:
        value = message.get(name)
        if isinstance(value, str):
            return value
    return None


def _table(message: Message, name: str) -> Message:
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def _number(message: Message, below: int, *names: str) -> int | None:
    for name in names:
        value = message.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value if 0 <= value < below else None
    return None


def _session(message: Message) -> Payload | None:
    session = _table(message, "session")
    session_id = _text(session, "id")
    if session_id is None:
        return None
    return {"SessionUpdated": {"realtime_session_id": session_id, "instructions": _text(session, "instructions")}}


def _piece(kind: str) -> Callable[[Message], Payload | None]:
    def read(message: Message) -> Payload | None:
        delta = _text(message, "delta")
        return None if delta is None else {kind: {"delta": delta}}

    return read


def _whole(kind: str, name: str) -> Callable[[Message], Payload | None]:
    def read(message: Message) -> Payload | None:
        text = _text(message, name)
        return None if text is None else {kind: {"text": text}}

    return read


def _frame(message: Message, data: str | None, rate: int | None, channels: int | None) -> Payload | None:
    if data is None or rate is None or channels is None:
        return None
    frame: Payload = {"data": data, "sample_rate": rate, "num_channels": channels}
    samples = _number(message, _U32, "samples_per_channel")
    if samples is not None:
        frame["samples_per_channel"] = samples
    return frame


def _audio_v1(message: Message) -> Payload | None:
    rate, channels = _number(message, _U32, "sample_rate"), _number(message, _U16, "channels", "num_channels")
    frame = _frame(message, _text(message, "delta", "data"), rate, channels)
    return None if frame is None else {"AudioOut": frame}


def _audio_v2(message: Message) -> Payload | None:
    rate, channels = _number(message, _U32, "sample_rate"), _number(message, _U16, "channels", "num_channels")
    frame = _frame(
        message,
        _text(message, "delta"),
        SAMPLE_RATE if rate is None else rate,
        CHANNELS if channels is None else channels,
    )
    item_id = _text(message, "item_id")
    if frame is None:
        return None
    return {"AudioOut": frame if item_id is None else {**frame, "item_id": item_id}}


def _speech_started(message: Message) -> Payload:
    return {"InputAudioSpeechStarted": {"item_id": _text(message, "item_id")}}


def _response(kind: str) -> Callable[[Message], Payload]:
    def read(message: Message) -> Payload:
        response_id = _text(_table(message, "response"), "id")
        return {kind: {"response_id": _text(message, "response_id") if response_id is None else response_id}}

    return read


def _item_added(message: Message) -> Payload | None:
    return {"ConversationItemAdded": message["item"]} if "item" in message and _is_shallow(message["item"]) else None


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        if not inner:
            return True
        level = [each for values in inner for each in values]
    return False


def _item_done(message: Message) -> Payload | None:
    item_id = _text(_table(message, "item"), "id")
    return None if item_id is None else {"ConversationItemDone": {"item_id": item_id}}


def _item_done_v2(message: Message) -> Payload | None:
    item = _table(message, "item")
    name = item.get("name") if item.get("type") == "function_call" else None
    call_id = _text(item, "call_id", "id")
    if name not in (_HANDOFF_TOOL, _SILENCE_TOOL) or call_id is None:
        return _item_done(message)
    item_id = _text(item, "id")
    if item_id is None:
        item_id = call_id
    if name == _SILENCE_TOOL:
        return {"NoopRequested": {"call_id": call_id, "item_id": item_id}}
    return _handoff(call_id, item_id, _request(_text(item, "arguments") or ""))


def _handoff_v1(message: Message) -> Payload | None:
    handoff_id, item_id, text = (_text(message, name) for name in ("handoff_id", "item_id", "input_transcript"))
    return None if handoff_id is None or item_id is None or text is None else _handoff(handoff_id, item_id, text)


def _handoff(handoff_id: str, item_id: str, text: str) -> Payload:
    """Return a hand-off. The preceding speech is added later."""
    content = {"handoff_id": handoff_id, "item_id": item_id, "input_transcript": text, "active_transcript": []}
    return {"HandoffRequested": content}


def _request(arguments: str) -> str:
    """Return the user's request in the arguments of a hand-off. Without one of the usual names, that is all of the text."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(given, dict):
        for key in _REQUEST_KEYS:
            value = given.get(key)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return arguments


def _error(message: Message) -> Payload | None:
    text = _text(message, "message")
    if text is None:
        text = _text(_table(message, "error"), "message")
    if text is None and "error" in message:
        error = message["error"]
        text = json.dumps(error, ensure_ascii=False, separators=(",", ":")) if _is_shallow(error) else _TOO_DEEP
    return None if text is None else {"Error": text}


_BOTH: dict[str, Callable[[Message], Payload | None]] = {
    "session.updated": _session,
    "conversation.item.input_audio_transcription.delta": _piece("InputTranscriptDelta"),
    "conversation.item.input_audio_transcription.completed": _whole("InputTranscriptDone", "transcript"),
    "response.output_text.delta": _piece("OutputTranscriptDelta"),
    "response.output_audio_transcript.delta": _piece("OutputTranscriptDelta"),
    "response.output_audio_transcript.done": _whole("OutputTranscriptDone", "transcript"),
    "conversation.item.added": _item_added,
    "error": _error,
}

_V1 = {
    **_BOTH,
    "conversation.output_audio.delta": _audio_v1,
    "conversation.input_transcript.delta": _piece("InputTranscriptDelta"),
    "conversation.output_transcript.delta": _piece("OutputTranscriptDelta"),
    "conversation.item.done": _item_done,
    "conversation.handoff.requested": _handoff_v1,
}

_V2 = {
    **_BOTH,
    "response.output_audio.delta": _audio_v2,
    "response.audio.delta": _audio_v2,
    "response.output_text.done": _whole("OutputTranscriptDone", "text"),
    "input_audio_buffer.speech_started": _speech_started,
    "conversation.item.done": _item_done_v2,
    "response.created": _response("ResponseCreated"),
    "response.cancelled": _response("ResponseCancelled"),
    "response.done": _response("ResponseDone"),
}
