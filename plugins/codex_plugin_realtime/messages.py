"""The messages to the realtime server, in both versions of its protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.value import Value
from codex_plugin_realtime.audio import SAMPLE_RATE

__all__ = [
    "Session",
    "append_audio",
    "encoded",
    "function_output",
    "handoff_append",
    "response_create",
    "session_of",
    "session_update",
    "text_item",
    "truncate_item",
]

Json = dict[str, Any]

_PCM: Json = {"type": "audio/pcm", "rate": SAMPLE_RATE}
_TRANSCRIPTION = {"model": "gpt-4o-mini-transcribe"}
_SILENCE_MS = 500
"""How long the user is silent before the server takes a turn to be over, in milliseconds."""

_TOOLS: tuple[Json, ...] = (
    {
        "type": "function",
        "name": "background_agent",
        "description": (
            "Hands a request of the user to the agent that does the work. Call it for whatever the user asks for, unless it is plain"
            " conversation, and pass the user's own words without rewording them. An agent that has nothing to do starts on the"
            " request. One that is at work takes it as a change or an addition to what it does. If the user wants something done"
            " later or afterwards, call it now: a promise alone is forgotten."
        ),
        "parameters": {
            "type": "object",
            "properties": {"prompt": {"type": "string", "description": "What the user asks for, in the user's words."}},
            "required": ["prompt"],
            "additionalProperties": False,
        },
    },
    {
        "type": "function",
        "name": "remain_silent",
        "description": (
            "Says nothing. Call it where speaking would only disturb: after notes that are not from the user, and after news of the"
            " agent that the user does not need to hear now. The user notices nothing of it."
        ),
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
)


class Session(Value, kw_only=True):
    """The settings of a session.

    Attributes:
        version: ``v1`` or ``v2``.
        transcribes: Whether the server only transcribes speech (``v2``).
        instructions: The instructions for the voice model.
        session_id: The id in the header ``x-session-id``.
        output_modality: ``text`` or ``audio``.
    """

    version: str
    instructions: str
    model: str
    session_id: str
    output_modality: str
    voice: str
    transcribes: bool = False


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return a message as JSON in UTF-8."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def session_of(session: Session) -> Json:
    """Return the session as the server takes it."""
    if session.version == "v1":
        return {
            "type": "quicksilver",
            "instructions": session.instructions,
            "audio": {"input": {"format": _PCM}, "output": {"voice": session.voice}},
        }
    if session.transcribes:
        return {"type": "transcription", "audio": {"input": {"format": _PCM, "transcription": _TRANSCRIPTION}}}
    return {
        "type": "realtime",
        "instructions": session.instructions,
        "output_modalities": [session.output_modality],
        "audio": {
            "input": {
                "format": _PCM,
                "noise_reduction": {"type": "near_field"},
                "transcription": _TRANSCRIPTION,
                "turn_detection": {
                    "type": "server_vad",
                    "interrupt_response": True,
                    "create_response": True,
                    "silence_duration_ms": _SILENCE_MS,
                },
            },
            "output": {"format": _PCM, "voice": session.voice},
        },
        "tools": list(_TOOLS),
        "tool_choice": "auto",
    }


def session_update(session: Session) -> Json:
    """Return the message that sets the session up."""
    return {"type": "session.update", "session": session_of(session)}


def append_audio(data: str) -> Json:
    """Return the message with audio of the user, in base64."""
    return {"type": "input_audio_buffer.append", "audio": data}


def text_item(text: str, role: str) -> Json:
    """Return the message that adds a text to the conversation."""
    content = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "conversation.item.create", "item": {"type": "message", "role": role, "content": [content]}}


def function_output(call_id: str, output: str) -> Json:
    """Return the message that answers a call (``v2``)."""
    return {
        "type": "conversation.item.create",
        "item": {"type": "function_call_output", "call_id": call_id, "output": output},
    }


def handoff_append(handoff_id: str, text: str) -> Json:
    """Return the message that adds to the answer to a hand-off (``v1``)."""
    return {"type": "conversation.handoff.append", "handoff_id": handoff_id, "output_text": text}


def response_create() -> Json:
    """Return the message that lets the voice model speak."""
    return {"type": "response.create"}


def truncate_item(item_id: str, audio_end_ms: int) -> Json:
    """Return the message that tells how much of an item was heard before the user spoke."""
    return {
        "type": "conversation.item.truncate",
        "item_id": item_id,
        "content_index": 0,
        "audio_end_ms": audio_end_ms,
    }
