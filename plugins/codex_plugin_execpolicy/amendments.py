"""Prefixes that people allow from now on: which may be proposed, and how they are written down."""

from __future__ import annotations

import json
import re
from pathlib import Path

from codex_framework.errors import CodexError

__all__ = ["RULES_FILE", "allow_prefix", "is_banned"]

_INTERPRETER = re.compile(
    r"(python|pypy)[0-9.]*w?|pyw?|(ba|z|da|fi|k|c|tc)?sh|pwsh|powershell|cmd|env|sudo|doas|su|xargs|nohup|eval|exec"
    r"|node|nodejs|deno|bun|perl|ruby|php|lua(jit)?[0-9.]*|osascript|git",
    re.IGNORECASE,
)
"""Programs that can do anything at all, so that allowing them by name alone allows everything."""

RULES_FILE = "rules/default.rules"
"""The file that accepted prefixes go to, in ``$CODEX_HOME``."""


def is_banned(prefix: tuple[str, ...]) -> bool:
    """Whether a prefix is too broad to be allowed: an interpreter (or ``git``) with nothing but options."""
    if not prefix:
        return True
    name = prefix[0].rsplit("/", 1)[-1].removesuffix(".exe")
    return bool(_INTERPRETER.fullmatch(name)) and all(word.startswith("-") for word in prefix[1:])


def allow_prefix(codex_home: Path, prefix: tuple[str, ...]) -> bool:
    """Add a rule that allows a prefix to ``$CODEX_HOME/rules/default.rules``; whether it was not there already.

    The file is locked meanwhile, so that several programs may do this at the same time.

    Raises:
        CodexError: The prefix is empty or too broad, or the file cannot be written.
    """
    if not prefix or not prefix[0]:
        raise CodexError("a prefix needs at least one word", slug="exec-prefix", hint="Name the program to allow.")
    if is_banned(prefix):
        hint = "Add the words that make it one certain command, or write the rule into the file by hand."
        words = " ".join(prefix)
        raise CodexError(f"`{words}` can run anything: it cannot be allowed as a prefix", slug="exec-prefix", hint=hint)
    path = codex_home / RULES_FILE
    line = f'prefix_rule(pattern={json.dumps(list(prefix), ensure_ascii=False)}, decision="allow")\n'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _append(path, line.encode())
    except UnicodeEncodeError as error:
        fact = "a prefix has to be text: it contains bytes that are not UTF-8"
        raise CodexError(fact, slug="exec-prefix", hint="Allow a shorter prefix.") from error
    except OSError as error:
        hint = "See to it that the file can be written."
        raise CodexError(f"{path} cannot be written: {error.strerror}", slug="exec-prefix", hint=hint) from error


def _append(path: Path, line: bytes) -> bool:
    import fcntl

    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed
        file.seek(0)
        text = file.read()
        if line.strip() in (known.strip() for known in text.splitlines()):
            return False
        file.write(line if not text or text.endswith(b"\n") else b"\n" + line)
    return True
