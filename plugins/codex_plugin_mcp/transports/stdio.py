"""The transport to a server that is a program: one JSON message per line on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import cached_property

from codex_framework import ConfigError, ThreadContext, ToolError
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.roles.commands import RunningCommand
from codex_framework.toolkit.hidden_texts import forms_of, without
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.servers import ServerConfig
from codex_plugin_mcp.texts import plain
from codex_plugin_mcp.transports.transport import MAX_MESSAGE_BYTES, Fault, Message, read_messages

__all__ = ["StdioTransport", "decode"]

GRACE_S = 2.0
"""How long a server may clean up between SIGTERM and SIGKILL, in seconds (Codex's)."""

_STDERR_LINES = 20
_SHOWN_LINES = 3
_LINE_BYTES = 2000
"""How many of the last lines of stderr are kept and shown, and how many bytes of each."""

_MAX_UNWRITTEN = 1000
"""Maximum number of messages that a server has not read yet."""

_ENDS = 300
"""How many bytes at both ends of a message that is too large are searched for its id."""

_SECRET_NAME = re.compile(r"token|secret|passw|credential|auth|cookie|key", re.IGNORECASE)
"""Names of variables whose values are not shown, should the server print them."""

_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,15})(?:\.0)?"?\s*[,}]')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?')
"""A string of JSON. One without an end takes the rest of the line, so that no line is searched again and again."""

_MARK = b" \t\r\xef\xbb\xbf"
"""Characters that may precede a message: spaces and a byte order mark."""

_SIGNAL_BASE = 128


class StdioTransport:
    """A process of a server.

    It ends with the transport, with its thread, and with the kernel, even if the kernel's process is killed.

    Args:
        environ: The variables from which the server gets the allowed ones.
        on_fault: Called with a sentence about a mistake of the server.
    """

    def __init__(
        self, server: ServerConfig, thread: ThreadContext, *, environ: Mapping[str, str], on_fault: Fault
    ) -> None:
        self._server = server
        self._thread = thread
        self._environ = environ
        self._on_fault = on_fault
        self._process: RunningCommand | None = None
        self._lines = _Lines(on_fault)
        self._messages = _Messages(on_fault)
        self._stderr = _LastLines(
            logging.getLogger(f"codex_framework.mcp.{server.name}").info, _secrets_of(server.child_env(environ))
        )
        self._writing: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def process_id(self) -> int | None:
        """The id of the process, once it has been started."""
        return None if self._process is None else self._process.process_id

    async def start(self) -> None:
        """Start the process."""
        server = self._server
        folder = self._thread.settings.cwd
        try:
            self._process = await self._thread.start_process(
                (server.command or "", *server.args),
                permissions=server.sandbox,
                env=server.child_env(self._environ),
                cwd=folder if server.cwd is None else folder / home_expanded(server.cwd),
                inherit_env=False,
                lossless=True,
                grace_s=GRACE_S,
            )
        except (ToolError, ConfigError) as error:
            raise ConnectionFailed(
                f"`{server.command}` cannot be started: {error}",
                kind="missing",
                hint=error.hint or "Install the program, or correct `command` and `cwd`.",
            ) from error

    async def send(self, message: Message) -> None:
        """Write a message. If the caller is cancelled, the message is still written completely."""
        if self._process is None or self._process.exit_code is not None:
            raise ConnectionFailed(self.why_ended() or "the server is not running", kind="ended")
        if len(self._writing) >= _MAX_UNWRITTEN:
            raise ConnectionFailed(f"the server has not read the last {_MAX_UNWRITTEN} messages", kind="refused")
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        task = asyncio.get_running_loop().create_task(self._process.write(line))
        self._writing.add(task)
        task.add_done_callback(self._written)
        try:
            await asyncio.shield(task)
        except ToolError as error:
            raise ConnectionFailed(self.why_ended() or "the server has closed its stdin", kind="ended") from error

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of stdout. Lines of stderr are logged, and the last ones are kept."""
        if self._process is None:
            return
        async for chunk in self._process.chunks():
            if chunk.stream == "stderr":
                self._stderr.add(chunk.data)
                continue
            for line in self._lines.add(chunk.data):
                for message in self._messages.add(line):
                    yield message

    def negotiated(self, version: str) -> None:
        """Do nothing: the revision is not part of this transport."""

    def why_ended(self) -> str:
        """Return how the process ended, with the last lines of its stderr."""
        process = self._process
        if process is None or self._closing or process.exit_code is None:
            return ""
        return f"the server {_ending(process.exit_code)}{self._stderr.shown()}"

    def last_words(self) -> str:
        """Return the last lines of stderr, for the text of a failure, or an empty string."""
        return self._stderr.shown()

    async def aclose(self) -> None:
        """End the process group: SIGTERM, and after 2 s SIGKILL."""
        self._closing = True
        for task in tuple(self._writing):
            task.cancel()
        if self._process is not None:
            await self._process.kill()


class _Lines:
    """Splits bytes into lines, and skips a line that is too long."""

    def __init__(self, on_fault: Fault) -> None:
        self._on_fault = on_fault
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._skipping = False

    def add(self, data: bytes) -> list[bytes]:
        """Add bytes, and return the lines that are complete now."""
        *whole, rest = data.split(b"\n")
        lines: list[bytes] = []
        for part in whole:
            line = self._completed(part)
            if line.strip():
                lines.append(line)
        self._keep(rest)
        return lines

    def _completed(self, part: bytes) -> bytes:
        self._keep(part)
        line = b"".join(self._parts)
        skipped, self._parts, self._size, self._skipping = self._skipping, [], 0, False
        return self._refused(line) if skipped else line

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > MAX_MESSAGE_BYTES and not self._skipping:
            self._skipping = True
            self._head = b"".join(self._parts)[:_ENDS]
        if self._skipping:
            self._parts = [b"".join(self._parts)[-_ENDS:]]

    def _refused(self, tail: bytes) -> bytes:
        """Return the answer that takes the place of a message that is too large, if it is one, or an empty line."""
        self._on_fault(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB, which is ignored")
        why = f"the answer is larger than {MAX_MESSAGE_BYTES >> 20} MiB"
        return b"".join(json.dumps(message).encode() for message in _instead(self._head, tail, why))


class _Messages:
    """Reads the messages of lines. A message may extend over several lines, as servers write it that print readable JSON."""

    def __init__(self, on_fault: Fault) -> None:
        self._on_fault = on_fault
        self._begun = bytearray()
        self._depth = 0

    def add(self, line: bytes) -> list[Message]:
        """Return the messages that are complete with a line."""
        if not self._begun and not _begins_message(line):
            return decode(line, self._on_fault)
        if self._begun and _is_message(line):  # so what has begun before it is none
            return [*decode(self._take(), self._on_fault), *decode(line, self._on_fault)]
        self._begun += line + b"\n"
        self._depth += _depth(line)
        if self._depth > 0 and len(self._begun) <= MAX_MESSAGE_BYTES:
            return []
        return decode(self._take(), self._on_fault)

    def _take(self) -> bytes:
        whole, self._begun, self._depth = bytes(self._begun), bytearray(), 0
        return whole


def _begins_message(line: bytes) -> bool:
    """Return whether a line is the beginning of JSON. A truncated answer does not count, because its caller waits for it."""
    text = line.lstrip(_MARK).decode("utf-8", "replace").rstrip()
    if not text.startswith(("{", "[")) or _instead(line[:_ENDS], b"", ""):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text)
    except RecursionError:
        pass
    return False


def _is_message(line: bytes) -> bool:
    """Return whether a line is a complete message."""
    if b'"jsonrpc"' not in line and b'"result"' not in line and b'"error"' not in line:
        return False
    try:
        messages, _ = read_messages(line)
    except (ValueError, RecursionError):
        return False
    return any("jsonrpc" in one or ("id" in one and ("result" in one or "error" in one)) for one in messages)


def _depth(line: bytes) -> int:
    """Return how many brackets a line opens and does not close."""
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def _instead(head: bytes, tail: bytes, why: str) -> list[Message]:
    """Return the error that replaces an unreadable message, so that its caller does not wait for it, if it is an answer."""
    found = _ID.search(head) or _ID.search(tail)
    if found is None or not head.lstrip().startswith(b"{") or b'"method"' in head:
        return []  # it may be a message that the server shows for debugging
    return [{"jsonrpc": "2.0", "id": int(found[1]), "error": {"code": -32600, "message": why}}]


def _secrets_of(environ: Mapping[str, str]) -> Iterable[str]:
    return (value for name, value in environ.items() if _SECRET_NAME.search(name))


class _LastLines:
    """Keeps the last lines of a stream without secrets, and passes each line on."""

    def __init__(self, log: Callable[[str], object], secrets: Iterable[str] = ()) -> None:
        self._log = log
        self._secrets = secrets
        self._lines: deque[str] = deque(maxlen=_STDERR_LINES)
        self._rest = b""

    def add(self, data: bytes) -> None:
        """Add bytes."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[: 2 * _LINE_BYTES]
        for line in whole:
            text = self._text(line[: 2 * _LINE_BYTES])  # more than is shown, so that no secret is cut
            if text:
                self._lines.append(text)
                self._log(text)

    @cached_property
    def _hidden(self) -> tuple[str, ...]:
        return forms_of(self._secrets)

    def _text(self, line: bytes) -> str:
        return plain(without(line.decode("utf-8", "replace"), self._hidden), _LINE_BYTES).strip()

    def shown(self) -> str:
        """Return the last lines in a clause, or an empty string."""
        rest = self._text(self._rest)
        lines = [*self._lines, rest] if rest else list(self._lines)
        return f"; its last lines on stderr: {' | '.join(lines[-_SHOWN_LINES:])}" if lines else ""


def decode(line: bytes, on_fault: Fault) -> list[Message]:
    """Return the messages of a line: one, or a whole batch. Anything else is reported and dropped."""
    try:
        messages, has_others = read_messages(line)
    except (ValueError, RecursionError):
        on_fault(f"it printed a line on stdout that is not JSON, which is ignored: {_excerpt(line)}")
        return _instead(line[:_ENDS], line[-_ENDS:], "the answer is not JSON")
    if has_others:
        on_fault(f"it sent JSON that is not a message, which is ignored: {_excerpt(line)}")
    return messages


def _excerpt(line: bytes) -> str:
    text = line[:120].decode("utf-8", "replace").strip()
    return repr(f"{text}…" if len(line) > len(text) + 4 else text)


def _ending(exit_code: int) -> str:
    if exit_code > _SIGNAL_BASE:
        import signal

        try:
            return f"was ended by {signal.Signals(exit_code - _SIGNAL_BASE).name}"
        except ValueError:
            return f"ended with exit code {exit_code}"
    return f"ended with exit code {exit_code}"
