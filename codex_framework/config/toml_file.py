"""Reading of TOML files and of the values of ``-c``, with errors that tell the user what to do."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from codex_framework.config.keys import split_key
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.files import Files, NotAFileError, NotPermittedError

__all__ = ["content_of", "override_value", "parse_override", "parse_toml", "read_toml"]

_PLACE = r"^(?P<what>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$"
_CONFIDENTIAL = r"token|secret|passw|key|auth|header"
_NUL = r"\\(u0000|U00000000|x00)"
"""Escapes for a NUL character, which no path, argument or variable can contain."""

_MAX_SIZE = 8 * 1024 * 1024
"""Largest file that is read, in bytes. A project's file may come from an untrusted source, and may be sparse."""
_ASSIGNMENT = r"""(?P<key>(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^="'])*)=(?P<value>.*)"""


def content_of(path: Path) -> bytes | None:
    """Return the content of a configuration file, or None if it does not exist.

    Raises:
        ConfigError: The path is not a regular file, or the file cannot be read or is too large.
    """
    try:
        raw = Files().read(str(path.absolute()), _MAX_SIZE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        raise _unreadable(path, "is a folder, not a file", "Move it away, or replace it with a TOML file.") from None
    except PermissionError:
        raise _unreadable(path, "cannot be read: permission denied", "Make it readable: chmod u+r.") from None
    except (NotAFileError, NotPermittedError):
        raise _unreadable(path, "is not a regular file", "Move it away, or replace it with a TOML file.") from None
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror or error}", "Check the file.") from None
    if len(raw) > _MAX_SIZE:
        raise _unreadable(path, f"is larger than {_MAX_SIZE:,} bytes", "Move it away, or shorten it.")
    return raw


def read_toml(path: Path) -> tuple[dict[str, Any], str] | None:
    """Return a file's tables and its text, or None if the file does not exist.

    Raises:
        ConfigError: The file cannot be read, as :func:`content_of` raises, or is not UTF-8 or not TOML.
    """
    raw = content_of(path)
    return None if raw is None else parse_toml(path, raw)


def parse_toml(path: Path, raw: bytes) -> tuple[dict[str, Any], str]:
    """Return the tables and the text of a file's content.

    Raises:
        ConfigError: The content is not UTF-8 or is not TOML. The error names ``path``.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8",
            path=str(path),
            line=line,
            slug="config-syntax",
            hint="Save the file as UTF-8.",
        ) from None
    return _parse(path, text.replace("\r\n", "\n"))


def _parse(path: Path, text: str) -> tuple[dict[str, Any], str]:
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise _unreadable(path, "is nested too deeply", "Flatten its tables.") from None
    except ValueError as error:
        match = re.match(_PLACE, str(error), re.DOTALL)
        what = match["what"] if match else str(error)
        lines = text.split("\n")
        line = int(match["line"]) if match and match["line"] else len(lines)
        column = int(match["column"]) if match and match["column"] else len(lines[-1]) + 1
        shown = lines[line - 1].strip()
        # A line that may contain a secret is not shown, because messages end up in logs.
        quoted = f" in `{shown[:120]}`" if shown and not re.search(_CONFIDENTIAL, shown, re.IGNORECASE) else ""
        raise ConfigError(
            f"{path}:{line}:{column}: not valid TOML: {what[:1].lower()}{what[1:]}{quoted}",
            path=str(path),
            line=line,
            slug="config-syntax",
            hint="Fix this line. Strings need quotes, and each table and key may appear only once.",
        ) from None
    escape = re.search(_NUL, text)
    if escape and _has_nul(tables):
        line = text.count("\n", 0, escape.start()) + 1
        raise ConfigError(
            f"{path}:{line}: a string contains a NUL character",
            path=str(path),
            line=line,
            slug="config-syntax",
            hint=f"Remove {escape[0]}.",
        )
    return tables, text


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any("\0" in name or _has_nul(part) for name, part in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def _unreadable(path: Path, fact: str, hint: str) -> ConfigError:
    return ConfigError(f"{path} {fact}", path=str(path), slug="config-unreadable", hint=hint)


def parse_override(argument: str) -> tuple[tuple[str, ...], Any]:
    """Return the key and the value of ``-c key=value``.

    The value is parsed as TOML. If that fails, it is used as a string, without one surrounding pair of quotes. So
    ``-c model=o3`` needs no quotes.

    Raises:
        ConfigError: There is no ``=``, the key is not a dotted key, or a string contains a NUL character.
    """
    name, separator, value = argument.partition("=")
    if '"' in name or "'" in name:  # an `=` within quotes does not end the key
        match = re.fullmatch(_ASSIGNMENT, argument, re.DOTALL)
        name, separator, value = (match["key"], "=", match["value"]) if match else ("", "", "")
    if not separator:
        raise _override(argument, "has no `=`")
    try:
        key = split_key(name)
    except ValueError as error:
        raise _override(argument, str(error)) from None
    parsed = override_value(value.strip())
    if _has_nul({".".join(key): parsed}):
        raise _override(argument, "a string contains a NUL character")
    return key, parsed


def override_value(text: str) -> Any:
    """Return the value of a text: it is parsed as TOML, and used as a string if that fails."""
    if text in ("true", "false"):
        return text == "true"
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        parsed = {}
    if parsed.keys() == {"value"}:  # a line break in the value must not add further keys
        return parsed["value"]
    for quote in ('"', "'"):
        if len(text) > 1 and text.startswith(quote) and text.endswith(quote):
            return text[1:-1]
    return text


def _override(argument: str, fact: str) -> ConfigError:
    shown = argument if len(argument) <= 200 else argument[:200] + "..."
    return ConfigError(
        f"-c {shown!r}: {fact}",
        path="-c",
        slug="config-override",
        hint="Write -c key=value, for example: -c model=gpt-5.5 or -c 'tools.web_search=false'.",
    )
