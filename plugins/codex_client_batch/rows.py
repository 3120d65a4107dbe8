"""The rows of a batch file: JSON lines, each a prompt, or an object with a prompt and more."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.ops import MAX_USER_INPUT_TEXT_CHARS
from codex_framework.contract.protocol.wire import read
from codex_framework.contract.roles.launchers import Job
from codex_framework.contract.roles.outcomes import Limits
from codex_framework.contract.value import Value, field, fields_of
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["BadRow", "Row", "RowReader", "bad_key"]

_LONGEST_LINE = 16 * 1024 * 1024
_LONGEST_KEY = 120
"""A job's key may have 200 characters, which also name the batch and the attempt."""

_BAD_KEY = "(row "

_LONGEST_SHOWN = 40
"""Characters of a wrong value that are shown."""

_JOB_FIELDS = frozenset({"prompt", "key", "agent", "cwd", "limits"})


class Row(Value, kw_only=True):
    """A row that can be run.

    Attributes:
        number: The number of its line, starting at 1.
        key: The row's ``key``. By default, a hash of what decides about the session, so that a row keeps its key when others move.
        digest: A hash of its prompt, agent and folder.
        extra: The other fields of the row, which are copied into its result.
    """

    number: int
    key: str
    prompt: str
    agent: str | None
    cwd: str | None
    limits: Limits
    digest: str
    extra: Mapping[str, Any] = field(factory=dict)

    def job(self, key: str, limits: Limits, trace: str | None = None) -> Job:
        """Return the job that runs the row."""
        return Job(key=key, prompt=self.prompt, agent=self.agent, cwd=self.cwd, limits=limits, trace=trace)


class BadRow(Value, kw_only=True):
    """A row that cannot be run.

    Attributes:
        number: The number of its line, starting at 1.
        key: A key for its result.
        fact: What is wrong with it.
    """

    number: int
    key: str
    fact: str


def bad_key(number: int) -> str:
    """Return the key of a row that cannot be run."""
    return f"{_BAD_KEY}{number})"


class RowReader:
    """Reads the rows of a batch file one by one, so that the file may be larger than the memory.

    Args:
        agent: The agent of rows that name none.
        folder: The folder of rows that name none. A row may name a folder inside it, and no other: a row must not decide which files
            a session may write.
    """

    def __init__(self, agent: str | None, folder: Path) -> None:
        self._agent = agent
        self._folder = folder
        self._seen: Counter[str] = Counter()

    def rows(self, stream: BinaryIO) -> Iterator[Row | BadRow]:
        """Yield the rows of a file. Empty lines are skipped.

        Raises:
            CodexError: The file cannot be read.
        """
        for number, line in enumerate(_lines(stream), 1):
            content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line  # a byte order mark
            if content and not content.isspace():
                yield self._row(number, content)

    def _row(self, number: int, line: bytes) -> Row | BadRow:
        try:
            row = self._read(number, line)
        except ValueError as error:  # also of JSON and of UTF-8
            return BadRow(number=number, key=bad_key(number), fact=str(error))
        except RecursionError:
            return BadRow(number=number, key=bad_key(number), fact="it is nested too deeply")
        self._seen[row.key] += 1
        count = self._seen[row.key]
        if count == 1:
            return row
        if "key" in _object(line):
            fact = f"its key {row.key!r} is the key of an earlier row"
            return BadRow(number=number, key=bad_key(number), fact=fact)
        return row.evolve(key=f"{row.key}-{count}")  # the same prompt again: a session of its own

    def _read(self, number: int, line: bytes) -> Row:
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"it is longer than {_LONGEST_LINE:,} bytes")
        try:
            fields = _object(line)
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 at byte {error.start + 1}") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
        prompt, agent, cwd = (_text(fields, name) for name in ("prompt", "agent", "cwd"))
        if not prompt:
            found = ", ".join(f"`{name}`" for name in list(fields)[:5]) or "nothing"
            raise ValueError(f"it has no `prompt`, but {found}")
        if len(prompt) > MAX_USER_INPUT_TEXT_CHARS:
            raise ValueError(f"its `prompt` has {len(prompt):,} characters, more than {MAX_USER_INPUT_TEXT_CHARS:,}")
        agent = self._agent if agent is None else agent
        digest = _digest(prompt, agent, cwd)
        return Row(
            number=number,
            key=self._key(fields.get("key")) or digest,
            prompt=prompt,
            agent=agent,
            cwd=self._cwd(cwd),
            limits=_limits(fields.get("limits")),
            digest=digest,
            extra={name: value for name, value in fields.items() if name not in _JOB_FIELDS},
        )

    def _key(self, key: object) -> str | None:
        if key is None:
            return None
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str):
            raise ValueError(f"its `key` is {_shown(key)}, not a text or an integer")
        if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
            raise ValueError(f"its `key` does not have 1 to {_LONGEST_KEY} printable characters")
        if key.startswith(_BAD_KEY):
            raise ValueError(f"its `key` begins with {_BAD_KEY!r}, as the keys of rows that cannot be run")
        return key

    def _cwd(self, cwd: str | None) -> str:
        if cwd is None:
            return str(self._folder)
        found = Path(self._folder, cwd).resolve()
        if not found.is_relative_to(self._folder):
            raise ValueError(f"its `cwd` {cwd!r} is outside {self._folder}; name a folder that contains both with --cd")
        return str(found)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    try:
        while line := stream.readline(_LONGEST_LINE + 1):
            rest = line
            while rest and len(rest) > _LONGEST_LINE and not rest.endswith(b"\n"):  # skips the rest of the line
                rest = stream.readline(_LONGEST_LINE + 1)
            yield line
    except OSError as error:
        raise CodexError(
            f"the batch file cannot be read: {error.strerror or error}", slug="batch", hint="Name another file."
        ) from error


def _object(line: bytes) -> Mapping[str, Any]:
    value = strict_json(line.decode("utf-8"))
    if isinstance(value, str):
        return {"prompt": value}
    if not isinstance(value, dict):
        raise ValueError(f"it is {_shown(value)}, not an object or a text")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"its `{name}` is {_shown(value)}, not a text")
    return value


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _limits(value: object) -> Limits:
    if value is None:
        return Limits()
    try:
        limits = read(Limits, value, where="limits")
    except CodexError as error:
        raise ValueError(f"its `limits` are wrong: {error.fact}") from None
    names = [each.name for each in fields_of(Limits)]
    unknown = sorted(set(value) - set(names)) if isinstance(value, dict) else ()
    if unknown:
        raise ValueError(f"its `limits` have no `{unknown[0]}`, only {', '.join(names)}")
    return limits


def _digest(*parts: str | bytes | None) -> str:
    found = hashlib.sha256()
    for part in parts:
        data = b"\0" if part is None else part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8) + data)
    return found.hexdigest()[:16]
