"""The text of a file, in the encoding of the file. Standard library only.

The encoding is certain if the file is UTF-8 or begins with a byte order mark, and a patch then writes the file in it. In any
other file, lines of ASCII can be changed, which are the same in nearly all encodings. All other changes are refused, because
they would leave a file of two encodings.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MARK", "FileText", "WrongEncoding", "decode"]

MARK = "\ufeff"
"""The byte order mark, which is the first character of a text if its file begins with one."""

_MARKED = (
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
"""The byte order marks of encodings other than UTF-8, UTF-32 first, because one of its marks begins with a mark of UTF-16."""

_SHIFTS = ("\x1b$", "\x1b(I", "\x1b(J")
"""Escape sequences that select Japanese, Chinese or Korean characters in texts of 7 bits (ISO 2022)."""

_MANY_NULS = 4
"""One NUL in so many characters indicates UTF-16 or UTF-32."""


class WrongEncoding(Exception):  # noqa: N818  # named by what it says
    """A line cannot be written in the encoding of a file. The message is for the model, and follows the path."""


class FileText:
    """The text of a file.

    Attributes:
        content: The text, with the byte order mark. Bytes that are not UTF-8 are lone surrogates (``surrogateescape``).
        codec: The encoding: UTF-8, or another one that a byte order mark states.
    """

    __slots__ = ("codec", "content")

    def __init__(self, content: str, codec: str = "utf-8") -> None:
        self.content = content
        self.codec = codec

    def __eq__(self, other: object) -> bool:
        """Return whether the bytes of the files are equal."""
        return isinstance(other, FileText) and (self.content, self.codec) == (other.content, other.codec)

    __hash__ = None  # type: ignore[assignment]

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return self.content.encode(self.codec, "surrogateescape")

    def check_lines(self, lines: Iterable[str]) -> None:
        """Check that lines can be added to the file.

        Raises:
            WrongEncoding: The file would then have two encodings.
        """
        content = self.content
        if "\0" in content and _looks_wide(content):
            raise WrongEncoding(
                "it seems to be UTF-16 or UTF-32 without a byte order mark, which a patch cannot change; convert it first"
            )
        other = [line for line in lines if not line.isascii()]
        is_known = not other or (_is_valid(content) and not _has_shifts(content))
        for line in other:
            if not is_known and not _is_escaped(line):
                raise WrongEncoding(
                    "it is not UTF-8 and its encoding is unknown, so a patch can only add lines of ASCII to it; "
                    "convert the file, or change it with a program that is told its encoding"
                )
            if is_known and not _is_valid(line):
                raise WrongEncoding("the patch has bytes that are not UTF-8")

    def replaced_by(self, content: str) -> FileText:
        """Return a new text in the same encoding, with the byte order mark of this one."""
        if self.content.startswith(MARK) and not content.startswith(MARK):
            content = MARK + content
        return FileText(content, self.codec)


def decode(data: bytes) -> FileText:
    """Return the text of a file."""
    for mark, codec in _MARKED:
        if data.startswith(mark):
            try:
                return FileText(data.decode(codec), codec)
            except UnicodeDecodeError:
                break
    return FileText(data.decode("utf-8", "surrogateescape"))


def _looks_wide(content: str) -> bool:
    """Return whether a text with NULs looks like UTF-16 or UTF-32 that was read as UTF-8."""
    ends = content.count("\n")
    return (
        not _is_valid(content)
        or content.count("\0") * _MANY_NULS >= len(content)
        or (ends > 0 and ends in (content.count("\n\0"), content.count("\0\n")))
    )


def _has_shifts(content: str) -> bool:
    return content.isascii() and "\x1b" in content and any(shift in content for shift in _SHIFTS)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_escaped(line: str) -> bool:
    """Return whether all characters that are not ASCII are bytes of another encoding, which are written unchanged."""
    return all(char.isascii() or "\udc80" <= char <= "\udcff" for char in line)
