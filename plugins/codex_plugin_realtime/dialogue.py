"""The state of a conversation, without I/O: the messages to send after each event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codex_framework.toolkit.truncation import token_count, truncate
from codex_plugin_realtime.audio import duration_ms
from codex_plugin_realtime.messages import (
    append_audio,
    function_output,
    handoff_append,
    response_create,
    text_item,
    truncate_item,
)
from codex_plugin_realtime.parsing import Payload
from codex_plugin_realtime.transcript import Transcript

__all__ = ["Dialogue", "within_tokens"]

Messages = list[Mapping[str, Any]]

_USER, _BACKEND = "[USER] ", "[BACKEND] "
"""How texts of the user and of the thread's model begin (``v2``)."""

_FINAL = '"Agent Final Message":\n\n'
"""How a message of the thread's model begins that is no commentary (``v1``)."""

_NO_HANDOFF = "codex"
"""The subject of a message of the thread's model if nothing was handed off (``v1``)."""

_OUTPUT_TOKENS = 1000
"""How much of one message of the thread's model is sent, in tokens, as in Codex 0.169."""

_MIRRORED_TOKENS = 300
"""How much of one text that the user has typed is sent, in tokens."""

_STEERED = (
    "The agent is at work already and takes this into account. Its news follow as messages that begin with [BACKEND]."
)
_DONE = "The agent is done. Its messages above, which begin with [BACKEND], are the result."
_DONE_SILENTLY = "The agent is done. It wrote no message."
_STOPPED = "The agent was interrupted before it was done."
_FAILED = "The agent could not do this: {reason}"


class Dialogue:
    """A conversation with the voice model.

    Attributes:
        version: ``v1`` or ``v2``.
        handoff: The id of the hand-off that the thread works on. None if it works on none.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.handoff: str | None = None
        self._has_answered = False
        self._transcript = Transcript()
        self._is_responding = False
        self._owes_response = False
        self._spoken: tuple[str, int] | None = None

    # What the client and the thread say

    def audio(self, data: str) -> Messages:
        """Add audio of the user."""
        return [append_audio(data)]

    def text(self, text: str, role: str) -> Messages:
        """Add a text of the client."""
        return [text_item(self._marked(text) if role == "user" else text, role)]

    def typed(self, text: str) -> Messages:
        """Add text that the user has typed into the thread, shortened to 300 tokens."""
        return [text_item(within_tokens(self._marked(text), _MIRRORED_TOKENS), "user")] if text else []

    def speech(self, text: str) -> Messages:
        """Add text that the client wants to be spoken."""
        if self.version == "v1":
            return [handoff_append(self.handoff or _NO_HANDOFF, within_tokens(text, _OUTPUT_TOKENS))]
        return [self._news(text), *self._responses()]

    def written(self, text: str, phase: str | None) -> Messages:
        """Add a message of the thread's model, shortened to 1000 tokens."""
        if not text:
            return []
        self._has_answered = True
        if self.version == "v1":
            shown = within_tokens(text, _OUTPUT_TOKENS)
            whole = shown if phase == "commentary" else f"{_FINAL}{shown}"
            return [handoff_append(self.handoff or _NO_HANDOFF, whole)]
        return [self._news(text), *([] if self.handoff else self._responses())]

    def finished(self, *, stopped: bool = False, reason: str = "") -> Messages:
        """End the hand-off that the thread works on, if there is one.

        Args:
            stopped: Whether the work was interrupted.
            reason: Why the work failed. Empty means that it did not.
        """
        handoff, self.handoff = self.handoff, None
        if handoff is None:
            return []
        text = _STOPPED if stopped else _FAILED.format(reason=within_tokens(reason, _MIRRORED_TOKENS)) if reason else ""
        if self.version == "v1":
            return [handoff_append(handoff, f"{_FINAL}{text}")] if text else []
        done = _DONE if self._has_answered else _DONE_SILENTLY
        return [function_output(handoff, text or done), *self._responses()]

    def refused(self, handoff: str, reason: str) -> Messages:
        """Answer a hand-off that the thread has refused, for the given reason."""
        if handoff == self.handoff:
            return self.finished(reason=reason)
        return [] if self.version == "v1" else [self._news(_FAILED.format(reason=reason)), *self._responses()]

    # What the server says

    def received(self, payload: Payload) -> Messages:
        """Handle a message of the server. The payload of a hand-off gets the preceding speech."""
        ((kind, content),) = payload.items()
        if kind == "HandoffRequested":
            content["active_transcript"] = self._transcript.taken(content["input_transcript"])
            return self._handed_off(content["handoff_id"])
        if self.version == "v1":
            self._transcript.heard(kind, content)
            return []
        match kind:
            case "AudioOut":
                self._hear(content)
            case "InputAudioSpeechStarted":
                return self._handle_interruption(content["item_id"])
            case "ResponseCreated":
                self._is_responding = True
            case "ResponseCancelled" | "ResponseDone":
                self._spoken, self._is_responding = None, False
                return self._responses() if self._owes_response else []
            case "NoopRequested":
                self._spoken = None
                return [function_output(content["call_id"], "")]
            case _:
                self._transcript.heard(kind, content)
        return []

    def _handed_off(self, handoff: str) -> Messages:
        self._spoken = None
        if self.handoff is not None and self.version == "v2":
            return [function_output(handoff, _STEERED), *self._responses()]
        self.handoff, self._has_answered = handoff, False
        return []

    def _hear(self, frame: Mapping[str, Any]) -> None:
        """Add up how much of an item was spoken."""
        item_id, lasts_ms = frame.get("item_id"), duration_ms(frame)
        if item_id is None or not lasts_ms:
            return
        before = self._spoken[1] if self._spoken is not None and self._spoken[0] == item_id else 0
        self._spoken = item_id, before + lasts_ms

    def _handle_interruption(self, item_id: str | None) -> Messages:
        """Handle an interruption: the user speaks while an item is spoken, and the server learns how much of it was heard."""
        spoken, self._spoken = self._spoken, None
        if spoken is None or item_id not in (None, spoken[0]):
            return []
        return [truncate_item(*spoken)]

    # Helpers

    def _news(self, text: str) -> Mapping[str, Any]:
        return text_item(within_tokens(f"{_BACKEND}{text}", _OUTPUT_TOKENS), "user")

    def _responses(self) -> Messages:
        """Let the voice model speak, now or after its present response: the server refuses a second one."""
        self._owes_response = self._is_responding
        if self._is_responding:
            return []
        self._is_responding = True
        return [response_create()]

    def _marked(self, text: str) -> str:
        is_plain = self.version == "v1" or not text or text.startswith(_USER)
        return text if is_plain else f"{_USER}{text}"


def within_tokens(text: str, tokens: int) -> str:
    """Return a text, or its beginning and end with a marker between them that fit together into so many tokens."""
    short = truncate(text, ("tokens", tokens))
    limit = tokens
    while short is not text and (over := token_count(len(short.encode("utf-8", "replace"))) - tokens) > 0:
        limit -= over
        short = truncate(text, ("tokens", limit))
    return short


def joined(entries: Iterable[Mapping[str, str]]) -> str:
    """Return the speech as lines: ``user: ...``."""
    return "\n".join(f"{entry['role']}: {entry['text']}" for entry in entries)
