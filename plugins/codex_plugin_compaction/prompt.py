"""What the model is asked for a summary with, and how the summary is introduced to the model that goes on."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import ConfigError
from codex_framework.contract.protocol.items import SUMMARY_MARK

__all__ = ["NO_SUMMARY", "PROMPT", "SUMMARY_PREFIX", "compact_prompt"]

PROMPT = """\
The conversation above is about to leave your context window. Write the note that lets another model take the work over. It will see
your note and the user's own messages, and nothing else: no tool output, no file that was read, none of your earlier answers.

Write down:

- what the user wants, and every wish, limit or preference that still holds;
- what has been done, what was decided and why, and what was tried without success;
- the present state: files that were changed, commands and tests with their results, names, paths, values and errors that matter;
- what is left to do, step by step, beginning with the next step.

Be exact and brief. Leave out what no longer matters. Answer with the note alone, and call no tool.
"""
"""The prompt unless the configuration has another one."""

SUMMARY_PREFIX = (
    f"{SUMMARY_MARK} You also have access to the"
    " state of the tools that were used by that language model. Use this to build on the work that has already been done and avoid"
    " duplicating work. Here is the summary produced by the other language model, use the information in this summary to assist with"
    " your own analysis:"
)
"""How the message with a summary begins: Codex's words, by which Codex, too, tells it from the messages of a person."""

NO_SUMMARY = "(no summary available)"
"""What stands in place of the summary if the model said nothing (Codex's words)."""

MAX_BYTES = 1 << 20
"""Longest prompt that is read from a file, in bytes."""

_FILE_KEY = "experimental_compact_prompt_file"


def compact_prompt(config: Mapping[str, Any]) -> str:
    """Return the prompt: ``compact_prompt``, else the file that is named, else :data:`PROMPT`.

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
            raise _error(f"the compact prompt {file} is not a regular file")  # a pipe would hold up everything
        if status.st_size > MAX_BYTES:
            raise _error(f"the compact prompt {file} has {status.st_size} bytes; at most {MAX_BYTES} are read")
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise _error(f"the compact prompt {file} is not UTF-8 (byte {error.start})") from error
        reason = getattr(error, "strerror", None) or error
        raise _error(f"the compact prompt {file} cannot be read: {reason}") from error
    if not text:
        raise _error(f"the compact prompt {file} is empty")
    return text


def _error(fact: str) -> ConfigError:
    return ConfigError(fact, key=_FILE_KEY, hint=f"Repair the file, or take `{_FILE_KEY}` out of the configuration.")
