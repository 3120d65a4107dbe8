"""The prompt, taken from the argument, from stdin, or from both."""

from __future__ import annotations

import os
import select
import stat
import sys

from codex_framework.contract.errors import CodexError

__all__ = ["drain_stdin", "read_prompt"]

DRAIN_PATIENCE_S = 0.5
"""Seconds that a caller may pause while writing. After a longer pause, an early failure stops reading."""

_PATIENCE_S = 3.0
"""Seconds without input after which the run prints what it waits for."""

_STILL_OPEN = (
    "stdin is still open, and the run starts when it is closed. If you do not want to pipe a prompt, add `< /dev/null`."
)


def read_prompt(argument: str | None) -> str:
    """Return the whole prompt, including piped input.

    Without an argument, or with ``-``, stdin is the prompt. With another argument, piped stdin is appended as a block.

    Raises:
        CodexError: There is no prompt, or stdin is not text.
    """
    if argument is not None and argument != "-":
        if not _is_text(argument):
            drain_stdin()
            raise CodexError("the prompt is not valid UTF-8", slug="prompt", hint="Encode the prompt as UTF-8.")
        text = _read_pipe("Reading additional input from stdin...")
        if not text.strip():
            return argument
        end = "" if text.endswith("\n") else "\n"
        return f"{argument}\n\n<stdin>\n{text}{end}</stdin>"
    if argument is None and _is_terminal():
        raise CodexError(
            "No prompt provided. Either specify one as an argument or pipe the prompt into stdin.", slug="no-prompt"
        )
    text = _read_pipe("Reading prompt from stdin...", terminal=True)
    if not text.strip():
        raise CodexError(
            "No prompt provided via stdin.", slug="no-prompt", hint="Pipe the prompt in, or give it as an argument."
        )
    return text


def _is_text(argument: str) -> bool:
    """Return whether an argument contained only valid UTF-8. Python keeps other bytes as halves of surrogate pairs."""
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


def _read_pipe(notice: str, *, terminal: bool = False) -> str:
    """Return all of stdin, or nothing if it is closed or a terminal that should not be read."""
    if not terminal and _is_terminal():
        return ""
    try:
        os.fstat(0)
    except OSError:  # closed, so there is no input
        return ""
    print(notice, file=sys.stderr, flush=True)
    chunks = []
    told = _is_terminal()
    try:
        while True:
            if not told and not select.select([0], [], [], _PATIENCE_S)[0]:
                print(_STILL_OPEN, file=sys.stderr, flush=True)
                told = True
            if not (chunk := os.read(0, 1 << 20)):
                break
            chunks.append(chunk)
    except OSError as error:
        raise CodexError(
            f"cannot read stdin: {error.strerror}",
            slug="stdin",
            hint="Give the prompt as an argument, or pipe text to stdin.",
        ) from error
    return _text(b"".join(chunks))


_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def _text(data: bytes) -> str:
    encoding = next((encoding for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise CodexError(
            f"stdin is not valid UTF-8 (byte {error.start})",
            slug="stdin",
            hint="Convert it first, for example: iconv -f ISO-8859-1 -t UTF-8.",
        ) from error


def drain_stdin() -> None:
    """Read the input that a caller is still writing, so that our early exit does not break its pipe.

    A program that is writing the prompt would get EPIPE, which crashes some of them (such as the TypeScript SDK).
    """
    try:
        if not (stat.S_ISFIFO(mode := os.fstat(0).st_mode) or stat.S_ISSOCK(mode)):
            return
        while select.select([0], [], [], DRAIN_PATIENCE_S)[0] and os.read(0, 1 << 16):
            pass
    except (OSError, ValueError):  # closed, so nobody is writing
        return
