"""The prompt: from the argument, from stdin, or from both."""

from __future__ import annotations

import os
import select
import stat
import sys

from codex_framework.errors import CodexError

__all__ = ["drain_stdin", "read_prompt"]

DRAIN_PATIENCE_S = 0.5
"""How long a caller that is still writing may pause before an early failure stops listening to it."""


def read_prompt(argument: str | None) -> str:
    """The whole prompt, with what was piped in.

    Without an argument, or with ``-``, stdin is the prompt; with another argument, piped stdin follows it as a block.

    Raises:
        CodexError: There is no prompt, or stdin is not text.
    """
    if argument is not None and argument != "-":
        if not _is_text(argument):
            drain_stdin()
            raise CodexError("the prompt is not valid UTF-8", slug="prompt", hint="Give it in UTF-8.")
        text = _piped("Reading additional input from stdin...")
        if not text.strip():
            return argument
        end = "" if text.endswith("\n") else "\n"
        return f"{argument}\n\n<stdin>\n{text}{end}</stdin>"
    if argument is None and _is_terminal():
        raise CodexError(
            "No prompt provided. Either specify one as an argument or pipe the prompt into stdin.", slug="no-prompt"
        )
    text = _piped("Reading prompt from stdin...", terminal=True)
    if not text.strip():
        raise CodexError(
            "No prompt provided via stdin.", slug="no-prompt", hint="Pipe the prompt in, or give it as an argument."
        )
    return text


def _is_text(argument: str) -> bool:
    """Whether an argument had no bytes that are no UTF-8 (Python keeps them as halves of surrogate pairs)."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:  # closed
        return False


def _piped(notice: str, *, terminal: bool = False) -> str:
    """All of stdin; nothing where it is closed, or is a terminal that is not to be read."""
    if not terminal and _is_terminal():
        return ""
    try:
        os.fstat(0)
    except OSError:  # closed: nothing can come
        return ""
    print(notice, file=sys.stderr, flush=True)
    chunks = []
    try:
        while chunk := os.read(0, 1 << 20):
            chunks.append(chunk)
    except OSError as error:
        raise CodexError(
            f"cannot read stdin: {error.strerror}",
            slug="stdin",
            hint="Give the prompt as an argument, or pipe text in.",
        ) from error
    return _text(b"".join(chunks))


_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def _text(data: bytes) -> str:
    encoding = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise CodexError(
            f"stdin is not valid UTF-8 (byte {error.start})",
            slug="stdin",
            hint="Convert it first, for example: iconv -f ISO-8859-1 -t UTF-8.",
        ) from error


def drain_stdin() -> None:
    """Take what a caller is writing, so that our early end does not break its pipe.

    A program that writes the prompt while we fail would get EPIPE, and some (the TypeScript SDK) crash from that.
    """
    try:
        if not (stat.S_ISFIFO(mode := os.fstat(0).st_mode) or stat.S_ISSOCK(mode)):
            return
        while select.select([0], [], [], DRAIN_PATIENCE_S)[0] and os.read(0, 1 << 16):
            pass
    except (OSError, ValueError):  # closed, or gone: nobody is waiting
        return
