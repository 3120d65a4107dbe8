"""Images in the conversation, for terminals that display them: by the protocol of kitty or of iTerm2.

The environment determines the abilities of a terminal. The terminal is not queried, because an unsupported query may be
printed, and a late answer would look like keys. Every image also has a line with its name and size.
"""

from __future__ import annotations

import base64
import binascii
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from codex_client_terminal.text import Line, Span

__all__ = ["Picture", "picture_escape", "picture_line"]

LARGEST = 4_000_000
"""The largest image that is displayed, in bytes."""

MOST_ROWS = 20
_INDENT = "    "
_CHUNK = 4_096
_ITERM2 = ("iTerm.app", "WezTerm", "mintty")
_FRAMES = frozenset((*range(0xC0, 0xD0),)) - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG file that have its size."""


class Picture(list[Span]):
    """A line with the name and size of an image, below which the image is displayed if the terminal can.

    Attributes:
        data: The image's file.
        size: Its width and height in pixels.
    """

    def __init__(self, line: Iterable[Span], data: bytes, size: tuple[int, int]) -> None:
        super().__init__(line)
        self.data = data
        self.size = size


def picture_line(source: str) -> Line:
    """Return the line for an image: a path, or a ``data:`` URL."""
    name = "image" if source.startswith("data:") else source
    try:
        data = _read(source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be read"
        return [("  └ ", "dim"), (name, ""), (f" ({reason})", "dim")]
    size = _pixels(data)
    shown = f"{size[0]}x{size[1]}, " if size else ""
    line = [("  └ ", "dim"), (name, ""), (f" ({shown}{_bytes(len(data))})", "dim")]
    return Picture(line, data, size) if size else line


def picture_escape(
    picture: Picture, most_columns: int, cell: tuple[int, int], environ: Mapping[str, str] = os.environ
) -> str:
    """Return what displays an image at the cursor, and leaves the cursor in its last row. Empty if the terminal cannot.

    Args:
        cell: The width and height of a character in pixels.
    """
    protocol = _protocol(environ)
    columns = _columns(picture.size, most_columns - len(_INDENT), cell)
    if protocol == "iterm2":
        encoded = base64.b64encode(picture.data).decode()
        return (
            f"    \x1b]1337;File=inline=1;size={len(picture.data)};width={columns};preserveAspectRatio=1:{encoded}\x07"
        )
    if protocol == "kitty" and picture.data.startswith(b"\x89PNG"):  # the only kind of file that it knows
        return _INDENT + "".join(_kitty(picture.data, columns))
    return ""


def _protocol(environ: Mapping[str, str]) -> str:
    """Return the protocol of the terminal. Multiplexers do not pass images on."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or environ.get("ZELLIJ") or term.startswith(("tmux", "screen")):
        return ""
    if term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty" or environ.get("KITTY_WINDOW_ID"):
        return "kitty"
    return "iterm2" if program in _ITERM2 or environ.get("LC_TERMINAL") == "iTerm2" else ""


def _kitty(data: bytes, columns: int) -> Iterator[str]:
    """Yield the pieces of an image. ``q=2``: the terminal does not answer."""
    encoded = base64.b64encode(data).decode()
    control = f"a=T,f=100,q=2,c={columns},"
    for place in range(0, len(encoded), _CHUNK):
        more = int(place + _CHUNK < len(encoded))
        yield f"\x1b_G{control}m={more};{encoded[place : place + _CHUNK]}\x1b\\"
        control = "q=2,"


def _columns(size: tuple[int, int], most: int, cell: tuple[int, int]) -> int:
    """Return how many columns an image takes, so that it is not larger than it is, nor than the screen."""
    width, height = size
    by_height = MOST_ROWS * cell[1] * width / (height * cell[0])
    return max(1, min(-(-width // cell[0]), int(by_height), most))


def _read(source: str) -> bytes:
    """Return the file of an image. Raises OSError and ValueError."""
    if source.startswith("data:"):
        return binascii.a2b_base64(source.partition(",")[2][: 2 * LARGEST])
    from codex_framework.toolkit.regular_files import read_regular

    return read_regular(Path(source), LARGEST)


def _pixels(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, GIF or JPEG file. None for anything else."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack_from(">II", data, 16)
        elif data.startswith((b"GIF87a", b"GIF89a")):
            width, height = struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"\xff\xd8"):
            place = 2
            while data[place + 1] not in _FRAMES:
                place += 2 + struct.unpack_from(">H", data, place + 2)[0]
            height, width = struct.unpack_from(">HH", data, place + 5)
        else:
            return None
    except (struct.error, IndexError):
        return None
    return (width, height) if width and height else None


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB" if count >= 1e3 else f"{count} B"
