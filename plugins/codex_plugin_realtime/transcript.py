"""The speech since the last hand-off."""

from __future__ import annotations

from typing import Any

__all__ = ["Transcript"]

_CHARS_LIMIT = 32_768
"""The maximum length of the speech that is kept for the next hand-off, in characters. The oldest is dropped."""


class Transcript:
    """The words of the user and of the voice model, in order."""

    def __init__(self) -> None:
        self._entries: list[list[str]] = []
        self._chars = 0

    def heard(self, kind: str, content: dict[str, Any]) -> None:
        """Take note of a transcript, or of a piece of one."""
        match kind:
            case "InputTranscriptDelta":
                self._add("user", content["delta"])
            case "OutputTranscriptDelta":
                self._add("assistant", content["delta"])
            case "InputTranscriptDone":
                self._complete("user", content["text"])
            case "OutputTranscriptDone":
                self._complete("assistant", content["text"])
            case _:
                pass

    def taken(self, request: str) -> list[dict[str, str]]:
        """Return the speech with the request of a hand-off at its end, and forget it."""
        if request and (not self._entries or self._entries[-1] != ["user", request]):
            self._entries.append(["user", request])
        entries, self._entries, self._chars = self._entries, [], 0
        return [{"role": role, "text": text} for role, text in entries]

    def _add(self, role: str, text: str) -> None:
        if not text:
            return
        if self._entries and self._entries[-1][0] == role:
            self._entries[-1][1] += text
        else:
            self._entries.append([role, text])
        self._grown(len(text))

    def _complete(self, role: str, text: str) -> None:
        """Replace the pieces of a transcript by the whole."""
        if not text:
            return
        if self._entries and self._entries[-1][0] == role:
            self._chars -= len(self._entries[-1][1])
            self._entries[-1][1] = text
        else:
            self._entries.append([role, text])
        self._grown(len(text))

    def _grown(self, chars: int) -> None:
        self._chars += chars
        while self._chars > _CHARS_LIMIT and len(self._entries) > 1:
            self._chars -= len(self._entries.pop(0)[1])
        if self._chars > _CHARS_LIMIT:
            entry = self._entries[0]
            entry[1] = entry[1][-_CHARS_LIMIT // 2 :]
            self._chars = len(entry[1])
