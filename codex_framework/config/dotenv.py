"""``$CODEX_HOME/.env``: environment variables beside the configuration, such as API keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.regular_files import open_regular

__all__ = ["load_dotenv"]

_RESERVED = "CODEX_"
"""Variables with this prefix control this program, so they cannot come from the file (Codex's rule)."""

_NOTHING = re.compile(r"(?:\s|#[^\n]*)*")
"""Blank lines and comments."""

_NAME = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)\s*=[ \t]*")
_PART = re.compile(
    r"""'(?P<literal>[^']*)'"""
    r"""|"(?P<quoted>(?:[^"\\]|\\.)*)\""""
    r"""|(?P<end>[ \t]*(?:[ \t]\#[^\n]*)?(?=\n|\Z))"""
    r"""|(?P<plain>(?:\\[^\n]|[^'"\\\n])(?:\\[^\n]|[^'"\\\s])*)""",
    re.DOTALL | re.VERBOSE,
)
_SPECIAL = re.compile(r"\\(?P<escaped>.)|\$(?:\{(?P<braced>[^}\n]*)\}|(?P<named>[A-Za-z_][A-Za-z0-9_]*))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def load_dotenv(codex_home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    r"""Return the variables of ``$CODEX_HOME/.env``. They override the environment (Codex's rule).

    Lines have the form ``NAME=value``, ``export NAME="value"`` or ``NAME='value'``. A quoted value can have several lines.
    Outside of single quotes, ``$NAME`` and ``${NAME}`` are replaced by other variables, and ``\`` makes the next character
    literal. ``#`` starts a comment. Names that start with ``CODEX_`` are ignored.

    Raises:
        ConfigError: The file cannot be read, or a line has another form.
    """
    path = codex_home / ".env"
    try:
        with open(path, encoding="utf-8-sig", opener=open_regular) as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"{path} cannot be read: {reason}", path=str(path), slug="dotenv", hint="Correct the file or remove it."
        ) from None
    variables: dict[str, str] = {}
    at = 0
    while (start := _NOTHING.match(text, at)) and start.end() < len(text):
        at = start.end()
        name = _NAME.match(text, at)
        found = None if name is None else _value(text, name.end(), {**environ, **variables})
        if name is None or found is None or "\0" in found[0]:
            number = text.count("\n", 0, at) + 1
            raise ConfigError(
                f"{path}:{number}: this line is not NAME=value",  # the line itself may be a secret
                path=str(path),
                line=number,
                slug="dotenv",
                hint="Write NAME=value, and close each quote.",
            )
        value, at = found
        if not name["name"].upper().startswith(_RESERVED):
            variables[name["name"]] = value
    return variables


def _value(text: str, at: int, variables: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the value that begins at a position, and where its line ends. None if it is not a value."""

    def replace_special(special: re.Match[str]) -> str:
        if special["escaped"] is not None:
            return _ESCAPES.get(special["escaped"], special["escaped"])
        return variables.get(special["named"] or special["braced"], "")

    value = ""
    while part := _PART.match(text, at):
        at = part.end()
        if part["end"] is not None:
            return value, at
        literal = part["literal"]
        value += _SPECIAL.sub(replace_special, part["quoted"] or part["plain"] or "") if literal is None else literal
    return None
