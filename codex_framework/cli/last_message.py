"""The file that ``exec -o`` writes the final message to."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.links import resolved
from codex_framework.toolkit.files import Files, NotPermittedError

__all__ = ["check_target", "without_surrogates", "write_last_message"]


def check_target(path: str) -> None:
    """Check that the file can be written later, without creating it.

    Raises:
        CodexError: It is a folder, or its folder does not exist.
    """
    _place(path)
    if Path(path).is_dir():
        raise _unwritable(path, os.strerror(errno.EISDIR))
    if not Path(path).absolute().parent.is_dir():
        raise _unwritable(path, os.strerror(errno.ENOENT))


def write_last_message(path: str, message: str | None) -> None:
    """Write the final message. Without one, the file becomes empty, with a warning.

    The text is the model's, and commands may have written the folder in the meantime. So it goes only to the file that ``path``
    led to when the run began.

    Raises:
        CodexError: The file cannot be written.
    """
    place = _place(path)
    text = without_surrogates(message or "")
    try:
        if place is None:
            Path(path).write_text(text, "utf-8")
        else:
            Files(_Only(place)).write(os.path.join(Path.cwd(), path), text.encode())  # noqa: PTH118
    except NotPermittedError as error:
        raise _unwritable(path, str(error) or "it was exchanged for a symlink during the run") from None
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    if message is None:
        print(f"Warning: no last agent message; wrote empty content to {path}", file=sys.stderr)


def without_surrogates(text: str) -> str:
    """Return a text that every encoding of Unicode can write: halves of surrogate pairs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@functools.cache
def _place(path: str) -> str | None:
    """Return the real path of a file at the time of the first call. None for a device or a pipe, which is not replaced."""
    place, _ = resolved(os.path.join(Path.cwd(), path))  # noqa: PTH118
    return None if Path(path).exists() and not Path(path).is_file() else place


class _Only:
    """Permission to write a single file."""

    def __init__(self, place: str) -> None:
        self._place = place

    def permits_reading(self, path: str, links: Iterable[str] = ()) -> bool:  # noqa: ARG002  # nothing is read
        """Return False."""
        return False

    def permits_writing(self, path: str, links: Iterable[str] = ()) -> bool:  # noqa: ARG002  # resolved before
        """Return whether this is the file."""
        return path == self._place


def _unwritable(path: str, reason: str) -> CodexError:
    return CodexError(
        f"Failed to write last message file {path!r}: {reason}",
        slug="output-last-message",
        hint="Name a file in a writable folder with -o.",
    )
