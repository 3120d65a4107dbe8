"""The patch format: the content of a patch, and its parser.

It uses only little of the standard library, because the ``apply_patch`` command loads this file without ``site-packages``.
"""

from __future__ import annotations

__all__ = [
    "ADD",
    "BEGIN",
    "DELETE",
    "END",
    "END_OF_FILE",
    "ENVIRONMENT",
    "MOVE",
    "SPACES",
    "UPDATE",
    "AddHunk",
    "Chunk",
    "DeleteHunk",
    "Hunk",
    "InvalidPatch",
    "Reader",
    "UpdateHunk",
    "opens_heredoc",
    "parse",
    "read",
    "split_lines",
]

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ENVIRONMENT = "*** Environment ID: "
ADD = "*** Add File: "
DELETE = "*** Delete File: "
UPDATE = "*** Update File: "
MOVE = "*** Move to: "
END_OF_FILE = "*** End of File"

SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space; ``str.strip()`` alone would also take the separators U+001C to U+001F."""

_HEADERS = (ADD, DELETE, UPDATE)
_NO_BEGIN = f"The first line of the patch must be '{BEGIN}'"
_NO_END = f"The last line of the patch must be '{END}'"
_HEREDOC_OPENINGS = frozenset(("<<EOF", "<<'EOF'", '<<"EOF"'))


class InvalidPatch(Exception):  # noqa: N818  # named by what it says
    """The text is not a valid patch.

    Attributes:
        message: The problem.
        line: The line of the patch, from 1. None if the problem has no line.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line

    def __str__(self) -> str:
        """Return the text for the model."""
        if self.line is None:
            return f"invalid patch: {self.message}"
        return f"invalid hunk at line {self.line}, {self.message}"

    @property
    def for_terminal(self) -> str:
        """The text that the command prints."""
        if self.line is None:
            return f"Invalid patch: {self.message}"
        return f"Invalid patch hunk on line {self.line}: {self.message}"


class _Value:
    """Equality and repr by fields, because importing ``dataclasses`` would take the command several milliseconds."""

    __slots__: tuple[str, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, _Value) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields()))})"


class AddHunk(_Value):
    """Create or replace a file. ``content`` is its whole text."""

    __slots__ = ("content", "path")

    def __init__(self, path: str, content: str) -> None:
        self.path = path
        self.content = content


class DeleteHunk(_Value):
    """Delete a file."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


class Chunk(_Value):
    """One change of a file.

    Attributes:
        context: A line somewhere above the change (the text after ``@@``), or None.
        lines: ``(mark, text)``; the mark is a space (kept), ``-`` (removed) or ``+`` (new).
        end_of_file: Whether the old lines are at the end of the file.
    """

    __slots__ = ("context", "end_of_file", "lines")

    def __init__(self, context: str | None, lines: tuple[tuple[str, str], ...], *, end_of_file: bool = False) -> None:
        self.context = context
        self.lines = lines
        self.end_of_file = end_of_file


class UpdateHunk(_Value):
    """Change a file, and move it to ``move_to`` if that is set."""

    __slots__ = ("chunks", "move_to", "path")

    def __init__(self, path: str, move_to: str | None, chunks: tuple[Chunk, ...]) -> None:
        self.path = path
        self.move_to = move_to
        self.chunks = chunks


Hunk = AddHunk | DeleteHunk | UpdateHunk


def parse(text: str) -> tuple[Hunk, ...]:
    """Return the hunks of a patch. See :func:`read`."""
    return read(text).hunks


def read(text: str) -> Reader:
    """Parse a patch.

    Common mistakes of models are accepted: space around the markers and headers, and a ``<<EOF`` wrapper around the patch.

    Raises:
        InvalidPatch: The text is invalid. No other exception is raised.
    """
    reader = Reader()
    lines = _body(text)
    for line in lines[:-1]:
        reader.take(line)
    reader.finish()
    return reader


def opens_heredoc(line: str) -> bool:
    """Return whether the line opens a heredoc, which some models put around a patch."""
    return line.rstrip(SPACES) in _HEREDOC_OPENINGS


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends (LF or CRLF)."""
    return [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]


def _body(text: str) -> list[str]:
    """Return the lines from ``BEGIN`` to ``END``, inclusive."""
    lines = split_lines(text.strip(SPACES))
    try:
        _check_markers(lines)
    except InvalidPatch:
        if not (len(lines) >= 4 and lines[0] in _HEREDOC_OPENINGS and lines[-1].endswith("EOF")):
            raise
        lines = lines[1:-1]
        _check_markers(lines)
    return lines


def _check_markers(lines: list[str]) -> None:
    if lines[0].strip(SPACES) != BEGIN and lines != [""]:
        raise InvalidPatch(_NO_BEGIN)
    if lines[-1].strip(SPACES) != END:
        raise InvalidPatch(_NO_END)


class Reader:
    """Parses a patch line by line. The hunks so far are available at any time.

    Attributes:
        environment: The id of the environment that the patch names, or None.

    Example:
        >>> reader = Reader()
        >>> for line in ("*** Begin Patch", "*** Delete File: old.txt"):
        ...     reader.take(line)
        >>> reader.hunks
        (DeleteHunk('old.txt'),)
    """

    def __init__(self) -> None:
        self._number = 0
        self._done: list[Hunk] = []
        self._open: _Added | _Updated | None = None
        self._ended = False
        self.environment: str | None = None

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The hunks so far, including the incomplete last one."""
        if self._open is None:
            return tuple(self._done)
        return (*self._done, self._open.hunk())

    def take(self, line: str) -> None:
        """Read the next line, without its end.

        Raises:
            InvalidPatch: The patch is invalid at this line.
        """
        self._number += 1
        if self._number == 1:
            if line.strip(SPACES) != BEGIN:
                raise InvalidPatch(_NO_BEGIN)
            return
        if self._ended:
            if line.strip(SPACES):
                raise InvalidPatch(_NO_END)
            return
        if line.startswith(ENVIRONMENT) and (self._number == 2 or (self._number == 3 and self.environment is not None)):
            self._name_environment(line.removeprefix(ENVIRONMENT).strip(SPACES))
            return
        if self._open is not None and line.rstrip(SPACES) != END and self._open.take(line, self._number):
            return
        self._close()
        self._header(line.strip(SPACES))

    def _name_environment(self, name: str) -> None:
        if self.environment is not None:
            raise InvalidPatch("apply_patch environment_id cannot be specified more than once")
        if not name:
            raise InvalidPatch("apply_patch environment_id cannot be empty")
        self.environment = name

    def finish(self) -> None:
        """Read the last line, which is ``END`` with optional space around it.

        Raises:
            InvalidPatch: The last hunk is incomplete.
        """
        self._number += 1
        self._close()
        self._ended = True

    def _close(self) -> None:
        if self._open is None:
            return
        self._open.check(self._number)
        self._done.append(self._open.hunk())
        self._open = None

    def _header(self, line: str) -> None:
        if line == END:
            self._ended = True
        elif line.startswith(ADD):
            self._open = _Added(line[len(ADD) :])
        elif line.startswith(DELETE):
            self._done.append(DeleteHunk(line[len(DELETE) :]))
        elif line.startswith(UPDATE):
            self._open = _Updated(line[len(UPDATE) :], self._number)
        else:
            raise InvalidPatch(
                f"'{line}' is not a valid hunk header. Valid hunk headers: "
                f"'{ADD}{{path}}', '{DELETE}{{path}}', '{UPDATE}{{path}}'",
                self._number,
            )


class _Added:
    """An add hunk that is being read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[str] = []

    def take(self, line: str, _number: int) -> bool:
        """Take a line. Return whether it belongs to the hunk."""
        if not line.startswith("+"):
            return False
        self._lines.append(f"{line[1:]}\n")
        return True

    def check(self, _number: int) -> None:
        """Do nothing, because a file may be empty."""

    def hunk(self) -> Hunk:
        """Return the current hunk."""
        return AddHunk(self._path, "".join(self._lines))


class _Updated:
    """An update hunk that is being read."""

    def __init__(self, path: str, number: int) -> None:
        self._path = path
        self._number = number
        self._move_to: str | None = None
        self._chunks: list[Chunk] = []
        self._context: str | None = None
        self._lines: list[tuple[str, str]] | None = None

    def take(self, line: str, number: int) -> bool:
        """Take a line. Return whether it belongs to the hunk.

        Raises:
            InvalidPatch: The line does not belong to any hunk.
        """
        if self._lines is None:
            return self._between(line, number)
        bare = line.rstrip(SPACES)
        if bare == END_OF_FILE:
            self.check(number)
            self._close(end_of_file=True)
        elif line == "":
            self._lines.append((" ", ""))
        elif line[0] in " +-":
            self._lines.append((line[0], line[1:]))
        elif not self._lines:
            shown = bare if line.startswith(_HEADERS) else line
            raise InvalidPatch(
                f"Unexpected line found in update hunk: '{shown}'. Every line should start with ' ' (context line), "
                "'+' (added line), or '-' (removed line)",
                number,
            )
        else:
            self._close()
            return self._between(line, number)
        return True

    def _between(self, line: str, number: int) -> bool:
        """Take a line before, between or after chunks."""
        bare = line.rstrip(SPACES)
        if number == self._number + 1 and bare.startswith(MOVE):
            self._move_to = bare[len(MOVE) :]
            return True
        if line.startswith(_HEADERS):
            return False
        if bare == "@@" or line.startswith("@@ "):
            self._context = None if bare == "@@" else bare[3:]
            self._lines = []
            return True
        if not self._chunks:
            if bare == END_OF_FILE:
                return True
            self._context, self._lines = None, []  # the first chunk needs no "@@"
            return self.take(line, number)
        if bare:
            raise InvalidPatch(f"Expected update hunk to start with a @@ context marker, got: '{line}'", number)
        return True

    def _close(self, *, end_of_file: bool = False) -> None:
        if self._lines:
            self._chunks.append(Chunk(self._context, tuple(self._lines), end_of_file=end_of_file))
        self._lines = None

    def check(self, number: int) -> None:
        """Check that nothing is missing.

        Raises:
            InvalidPatch: There is no chunk, or one without lines.
        """
        if self._lines is not None and not self._lines:
            raise InvalidPatch("Update hunk does not contain any lines", number)
        if self._lines is None and not self._chunks:
            raise InvalidPatch(f"Update file hunk for path '{self._path}' is empty", self._number)

    def hunk(self) -> Hunk:
        """Return the current hunk."""
        chunks = self._chunks
        if self._lines:
            chunks = [*chunks, Chunk(self._context, tuple(self._lines))]
        return UpdateHunk(self._path, self._move_to, tuple(chunks))
