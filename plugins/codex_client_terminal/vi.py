"""Keys of vi, as the composer's own keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["ViKeys"]

_MOVES: Mapping[str, Sequence[str]] = {
    "h": ("left",),
    "l": ("right",),
    " ": ("right",),
    "j": ("down",),
    "k": ("up",),
    "0": ("home",),
    "^": ("home",),
    "$": ("end",),
    "w": ("m-f", "right"),
    "e": ("m-f",),
    "b": ("m-b",),
    "x": ("delete",),
    "X": ("backspace",),
    "D": ("c-k",),
    "u": ("c-_",),
    "p": ("right", "c-y"),
    "P": ("c-y",),
    "dd": ("home", "c-k"),
    "dw": ("m-d",),
    "de": ("m-d",),
    "db": ("m-backspace",),
    "d0": ("c-u",),
    "d$": ("c-k",),
}
_INSERTS: Mapping[str, Sequence[str]] = {
    "i": (),
    "a": ("right",),
    "I": ("home",),
    "A": ("end",),
    "o": ("end", "c-j"),
    "O": ("home", "c-j", "up"),
    "s": ("delete",),
    "C": ("c-k",),
    "cc": ("home", "c-k"),
    "cw": ("m-d",),
    "ce": ("m-d",),
    "cb": ("m-backspace",),
    "c0": ("c-u",),
    "c$": ("c-k",),
}


class ViKeys:
    """The mode, and the beginning of a command of two keys.

    Attributes:
        is_normal: Whether keys are commands. Otherwise they insert text.
    """

    def __init__(self) -> None:
        self.is_normal = False
        self._begun = ""

    def translate(self, key: str) -> Sequence[str] | None:
        """Return the composer's keys for a key. None if the key keeps its meaning without vi."""
        if not self.is_normal:
            self.is_normal = key == "esc"
            return ("left",) if self.is_normal else None
        if len(key) != 1:
            self._begun = ""
            return None
        command, self._begun = self._begun + key, ""
        if command in ("d", "c"):
            self._begun = command
            return ()
        if (inserts := _INSERTS.get(command)) is not None:
            self.is_normal = False
            return inserts
        return _MOVES.get(command, ())
