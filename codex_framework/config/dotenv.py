"""``$CODEX_HOME/.env``: environment variables beside the configuration, such as API keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from codex_framework.contract.errors import ConfigError

__all__ = ["load_dotenv"]

_RESERVED = "CODEX_"
"""Variables with this prefix control this program, so they cannot come from the file (Codex's rule)."""

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(?P<value>.*)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def load_dotenv(codex_home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, extended by those variables of ``$CODEX_HOME/.env`` that it does not have yet.

    Lines have the form ``NAME=value``, ``export NAME="value"`` or ``NAME='value'``; ``#`` starts a comment. Names that start
    with ``CODEX_`` are ignored.

    Raises:
        ConfigError: The file cannot be read, or a line has another form.
    """
    variables = dict(environ)
    path = codex_home / ".env"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return variables
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"{path} cannot be read: {reason}", path=str(path), slug="dotenv", hint="Correct the file or remove it."
        ) from None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        value = None if match is None else _value(match["value"])
        if match is None or value is None:
            raise ConfigError(
                f"{path}:{number}: this line is not NAME=value",  # the line itself may be a secret
                path=str(path),
                line=number,
                slug="dotenv",
                hint="Write NAME=value; close each quote on the same line.",
            )
        if not match["name"].upper().startswith(_RESERVED):
            variables.setdefault(match["name"], value)
    return variables


def _value(text: str) -> str | None:
    """Return the value without quotes and comment, or None if a quote is not closed."""
    if text.startswith("'"):
        content, closed, rest = text[1:].partition("'")
        return content if closed and _is_comment(rest) else None
    if text.startswith('"'):
        match = re.match(r'"((?:[^"\\]|\\.)*)"', text)
        if match is None or not _is_comment(text[match.end() :]):
            return None
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), match[1])
    return re.split(r"\s#", text, maxsplit=1)[0].strip()


def _is_comment(rest: str) -> bool:
    return not rest.strip() or rest.strip().startswith("#")
