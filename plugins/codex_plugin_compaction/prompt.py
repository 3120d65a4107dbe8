"""The prompt for a summary, and the introduction of the summary for the model that continues."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import ConfigError
from codex_framework.contract.protocol.items import SUMMARY_MARK
from codex_framework.toolkit.files import Files, NotPermittedError

__all__ = ["NO_SUMMARY", "PROMPT", "SUMMARY_PREFIX", "compact_prompt"]

PROMPT = """\
The conversation above is about to leave your context window. Write a note with which another model can continue the work. It will
see your note and the user's own messages, and nothing else: no tool output, no file that was read, none of your earlier answers.

Write down:

- what the user wants, and every requirement, limit or preference that still applies;
- what has been done, what was decided and why, and what was tried without success;
- the current state: files that were changed, commands and tests with their results, names, paths, values and errors that matter;
- what is left to do, step by step, starting with the next step.

Be exact and brief. Leave out what no longer matters. Answer with the note alone, and call no tool.
"""
"""The default prompt."""

SUMMARY_PREFIX = (
    f"{SUMMARY_MARK} You also have access to the"
    " state of the tools that were used by that language model. Use this to build on the work that has already been done and avoid"
    " duplicating work. Here is the summary produced by the other language model, use the information in this summary to assist with"
    " your own analysis:"
)
"""The start of the message with a summary: Codex's words, by which Codex also distinguishes it from the user's messages."""

NO_SUMMARY = "(no summary available)"
"""The replacement for the summary if the model said nothing (Codex's words)."""

MAX_BYTES = 1 << 20
"""Maximum size of a prompt file in bytes."""

_FILE_KEY = "experimental_compact_prompt_file"


def compact_prompt(config: Mapping[str, Any]) -> str:
    """Return the prompt: ``compact_prompt``, else the content of the configured file, else :data:`PROMPT`.

    Raises:
        ConfigError: The file cannot be read, is not UTF-8, is empty or is too long.
    """
    text = config.get("compact_prompt")
    if isinstance(text, str) and text.strip():
        return text.strip()
    path = config.get("experimental_compact_prompt_file")
    return _from_file(Path(path)) if isinstance(path, str) and path else PROMPT.strip()


def _from_file(file: Path) -> str:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _error(f"the compact prompt {file} is not a regular file")  # reading a pipe could block everything
        if status.st_size > MAX_BYTES:
            raise _error(f"the compact prompt {file} has {status.st_size} bytes; at most {MAX_BYTES} are read")
        data = Files().read(str(file), MAX_BYTES)  # it may have been exchanged since
        text = data.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except NotPermittedError as error:
        raise _error(f"the compact prompt {file} may not be read") from error
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise _error(f"the compact prompt {file} is not UTF-8 (byte {error.start})") from error
        reason = getattr(error, "strerror", None) or error
        raise _error(f"the compact prompt {file} cannot be read: {reason}") from error
    if not text:
        raise _error(f"the compact prompt {file} is empty")
    return text


def _error(fact: str) -> ConfigError:
    return ConfigError(fact, key=_FILE_KEY, hint=f"Fix the file, or remove `{_FILE_KEY}` from the configuration.")
