"""Keys, read from the bytes that the terminal sends.

A key is a name: a printable character names itself, others are called ``enter``, ``up``, ``c-x`` (control), ``m-x`` (alt),
``s-tab`` (shift), and so on. Pasted text arrives as one :class:`Paste`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

__all__ = ["Key", "Keys", "Paste"]


class Key(str):
    """The name of a key."""

    __slots__ = ()

    @property
    def is_text(self) -> bool:
        """Whether the key is a character to insert."""
        return len(self) == 1


class Paste(str):
    """Pasted text."""

    __slots__ = ()


_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[(?:\[[A-E]|[0-?]*[ -/]*[@-~])|O[ -~]|[^\[O\x1b])")
_PARTIAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O|\[\[)?\Z")
_FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "s-tab"}
_NUMBERS = {
    "1": "home",
    "2": "insert",
    "3": "delete",
    "4": "end",
    "5": "pageup",
    "6": "pagedown",
    "7": "home",
    "8": "end",
}
_WHEEL = {"64": "wheel-up", "65": "wheel-down"}
_CONTROLS = {
    "\r": "enter",
    "\n": "c-j",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "esc",
    "\x00": "c-space",
    "\x1c": "c-\\",
    "\x1d": "c-]",
    "\x1e": "c-^",
    "\x1f": "c-_",
}
_UNICODE_KEYS = {"13": "enter", "9": "tab", "27": "esc", "127": "backspace", "32": " "}


class Keys:
    """A parser that keeps incomplete sequences and characters until the rest arrives.

    Args:
        encoding: The terminal's encoding of text.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._pending = ""
        self._pasted: list[str] | None = None

    @property
    def waits(self) -> bool:
        """Whether an escape has arrived that may be a key, or the beginning of one."""
        return bool(self._pending) and self._pasted is None

    def feed(self, data: bytes) -> Iterator[Key | Paste]:
        """Yield the keys that are complete."""
        self._pending += self._decoder.decode(data)
        while self._pending:
            if self._pasted is not None:
                paste = self._read_paste()
                if paste is None:
                    return
                yield paste
            elif self._pending.startswith(_BEGIN):
                self._pending = self._pending[len(_BEGIN) :]
                self._pasted = []
            elif self._pending[0] != "\x1b":
                letter, self._pending = self._pending[0], self._pending[1:]
                yield _key_of(letter)
            elif found := _SEQUENCE.match(self._pending):
                self._pending = self._pending[found.end() :]
                if (key := _sequence_key(found.group())) is not None:
                    yield key
            elif _PARTIAL.match(self._pending):
                return
            else:
                self._pending = self._pending[1:]
                yield Key("esc")

    def flush(self) -> Iterator[Key]:
        """Yield pending input unchanged, because nothing follows."""
        pending, self._pending = self._pending, ""
        if pending[:1] == "\x1b":
            yield Key("esc")
            yield from map(_key_of, pending[1:])

    def _read_paste(self) -> Paste | None:
        assert self._pasted is not None
        text, end, rest = self._pending.partition(_END)
        if not end:
            kept = next((n for n in range(len(_END) - 1, 0, -1) if text.endswith(_END[:n])), 0)
            self._pasted.append(text[: len(text) - kept])
            self._pending = text[len(text) - kept :]
            return None
        self._pending = rest
        whole, self._pasted = "".join((*self._pasted, text)), None
        return Paste(whole.replace("\r\n", "\n").replace("\r", "\n"))


def _key_of(letter: str) -> Key:
    if name := _CONTROLS.get(letter):
        return Key(name)
    return Key(f"c-{chr(ord(letter) + 96)}" if letter < " " else letter)


def _sequence_key(sequence: str) -> Key | None:
    """Return the key of an escape sequence. None if it is something else, such as an answer of the terminal."""
    if len(sequence) == 2:
        return Key(f"m-{_key_of(sequence[1])}")
    final, body = sequence[-1], sequence[2:-1]
    if body.startswith("<"):  # the mouse
        name = _WHEEL.get(body[1:].partition(";")[0])
        return None if name is None else Key(name)
    number, _, modifiers = body.partition(";")
    if final == "u":  # the form of newer terminals
        code = number.partition(":")[0]
        name = _UNICODE_KEYS.get(code) or (chr(int(code)) if code.isdigit() and 32 < int(code) < 0x110000 else None)
    elif final == "~":
        name = _NUMBERS.get(number)
    else:
        name = _FINALS.get(final)
    if name is None:
        return None
    return Key(f"{_prefix(modifiers)}{name}")


def _prefix(modifiers: str) -> str:
    number = modifiers.partition(":")[0]
    bits = int(number) - 1 if number.isdigit() and int(number) else 0
    return ("c-" if bits & 4 else "") + ("m-" if bits & 2 else "") + ("s-" if bits & 1 else "")
