"""Recording of a provider: a client that wraps another and writes its responses, without secrets, to a cassette."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from codex_framework.contract.errors import ConfigError, ModelError
from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.client_wrapper import ClientWrapper
from codex_framework.contract.roles.models import Completed, ModelClient, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.toolkit.appending import append_whole
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_replay.cassette import KNOWN_SHAPES, VERSION, digest, events_to_wire

__all__ = ["CassetteWriter", "RecordingClient", "Secrets", "recorded"]

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|authorization|cookie", re.IGNORECASE)
_TAIL_S = 2.0
"""Time limit for data after the completion of a response, in seconds."""
_SHORTEST = 8
"""Minimum length of a secret. Replacing shorter values would damage ordinary words."""


def recorded(client: ModelClient, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
    """Return the client itself, or one that records it if the provider's table has ``record = "path"``.

    A relative path starts at the current folder. An existing cassette is added to.

    Raises:
        ConfigError: ``record`` is not a path.
    """
    path = info.options.get("record")
    if path is None:
        return client
    if not isinstance(path, str) or not path:
        key = f"model_providers.{info.id}.record"
        raise ConfigError(f"{key} is {path!r}, not a path", key=key, hint='Write record = "path/to/cassette.jsonl".')
    return RecordingClient(client, CassetteWriter.at(Path(home_expanded(path)), info.id), Secrets.of(info, env))


class Secrets:
    """The texts that must not be written.

    Args:
        values: Secret texts by their replacement (``<secret:NAME>``).
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        known = {value: name for name, value in values.items() if len(value) >= _SHORTEST}
        # In the arguments of a call, a secret is JSON-encoded, and in a URL, percent-encoded.
        for value, name in list(known.items()):
            known.update({json.dumps(value)[1:-1]: name, quote(value, safe=""): name})
        self._names = known
        longest_first = sorted(known, key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, longest_first), KNOWN_SHAPES]))

    @classmethod
    def of(cls, info: ProviderInfo, env: Mapping[str, str]) -> Secrets:
        """Return the secrets of a provider's table and URL, of the environment, and of ``$CODEX_HOME/auth.json``."""
        values = {name: value for name, value in env.items() if _SECRET_NAME.search(name)}
        for table in (info.http_headers, info.query_params):
            values.update({name: str(value) for name, value in table.items() if _SECRET_NAME.search(name)})
        values.update(_of_url(info.base_url or ""))
        variables = [info.env_key or "", *info.env_http_headers.values()]
        values.update({name: env[name] for name in variables if env.get(name)})
        if info.experimental_bearer_token:
            values["experimental_bearer_token"] = info.experimental_bearer_token
        home = env.get("CODEX_HOME") or str(Path(env.get("HOME") or Path.home()) / ".codex")
        values.update(_stored_texts(Path(home) / "auth.json"))
        return cls(values)

    def without(self, value: Any) -> Any:
        """Return a JSON value without the secrets, including keys of objects."""
        if isinstance(value, str):
            return self._pattern.sub(self._replacement, value)
        if isinstance(value, Mapping):
            return {self.without(key): self.without(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.without(part) for part in value]
        return value

    def _replacement(self, found: re.Match[str]) -> str:
        return f"<secret:{self._names.get(found[0], 'token')}>"


def _of_url(url: str) -> dict[str, str]:
    """Return the user's name and password in a URL, and the values of its query whose names look like secrets."""
    try:
        parts = urlsplit(url)
        found = {"base_url user": parts.username or "", "base_url password": parts.password or ""}
        found.update({f"base_url {name}": value for name, value in parse_qsl(parts.query) if _SECRET_NAME.search(name)})
    except ValueError:
        return {"base_url": url}
    return {name: unquote(value) for name, value in found.items() if value}


def _stored_texts(path: Path) -> dict[str, str]:
    """Return the texts in ``auth.json``; none if it cannot be read, because then they were not sent either."""
    try:
        with open(path, encoding="utf-8", opener=open_regular) as file:
            stored = json.load(file)
    except (OSError, ValueError):
        return {}
    found: dict[str, str] = {}

    def look(name: str, value: Any) -> None:
        if isinstance(value, str) and (_SECRET_NAME.search(name)):
            found[f"auth.json {name}"] = value
        elif isinstance(value, dict):
            for key, part in value.items():
                look(str(key), part)

    look("", stored)
    return found


class CassetteWriter:
    """Appends to one file. Each exchange is written by one call, so a crash can truncate only its own lines."""

    def __init__(self, path: Path, provider: str) -> None:
        self.path = path
        self._provider = provider
        self._lock = threading.Lock()
        self._written: set[str] | None = None

    @classmethod
    def at(cls, path: Path, provider: str) -> CassetteWriter:
        """Return this process's writer for a path."""
        path = path.absolute()
        with _WRITERS_LOCK:
            return _WRITERS.setdefault(path, cls(path, provider))

    def write(self, parts: Mapping[str, Any], request: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
        """Append one exchange, and its parts that are not in the file yet.

        Raises:
            ModelError: The file cannot be written.
        """
        with self._lock:
            try:
                self._append(parts, {"request": request, **rest})
            except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
                raise self._error(error) from error

    def check(self) -> None:
        """Check that the file can be written, without creating it.

        Raises:
            ModelError: It cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.close(open_regular(self.path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW))
            except FileNotFoundError:
                if not os.access(self.path.parent, os.W_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
            raise self._error(error) from error

    def _error(self, error: Exception) -> ModelError:
        return ModelError(
            f"the cassette {self.path} cannot be written: {getattr(error, 'strerror', error)}",
            slug="cassette-write",
            hint="Choose another path for record, or remove it from the provider's table.",
        )

    def _append(self, parts: Mapping[str, Any], exchange: Mapping[str, Any]) -> None:
        lines: list[Any] = []
        with _open_cassette(self.path) as file:
            if self._written is None or os.fstat(file.fileno()).st_size == 0:
                self._written = _parts_in(file)
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                lines.append({"cassette": VERSION, "provider": self._provider})
            new = {name: value for name, value in parts.items() if name not in self._written}
            lines.extend({"part": name, "value": value} for name, value in new.items())
            lines.append(exchange)
            append_whole(file.fileno(), b"".join(map(_encode_line, lines)), size, sync=True)
        self._written.update(new)


_WRITERS: dict[Path, CassetteWriter] = {}
_WRITERS_LOCK = threading.Lock()


def _open_cassette(path: Path) -> BinaryIO:
    """Open a cassette for reading and appending. Only its owner can read a new one, because it contains a conversation.

    Raises:
        OSError: It cannot be opened, or is a symlink or no file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _encode_line(line: Any) -> bytes:
    """Return a line of the file. Text that UTF-8 cannot encode, such as half of a surrogate pair, is escaped."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


def _parts_in(file: BinaryIO) -> set[str]:
    """Return the parts that a file already has. An incomplete last line is removed first."""
    data = file.read()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.ftruncate(file.fileno(), end)
    return {name.decode() for name in re.findall(rb'^\{"part":"(\w+)"', data[:end], re.MULTILINE)}


class RecordingClient(ClientWrapper):
    """A client that records another.

    A response that was not read to its end is not recorded, nor are requests that the server prepares for.
    """

    def __init__(self, client: ModelClient, writer: CassetteWriter, secrets: Secrets) -> None:
        super().__init__(client)
        self._writer = writer
        self._secrets = secrets
        self._digests: dict[int, tuple[object, str]] = {}
        self._parts: dict[str, Any] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request, pass on the response, and record it.

        Raises:
            ModelError: The other client failed, or the cassette cannot be written.
        """
        self._writer.check()  # before anything is paid for
        heard: list[ModelEvent] = []
        rest: list[ModelEvent] = []
        # The role requires an iterator that can be closed, which its type cannot express.
        stream = cast("AsyncGenerator[ModelEvent, None]", self.client.stream(request))
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, Completed):
                        rest.append(event)
                        break
                    heard.append(event)
                    yield event
                # The completion is passed on last: after it, nobody would hear that the recording has failed.
                with contextlib.suppress(ModelError, TimeoutError):
                    async with asyncio.timeout(_TAIL_S):
                        async for event in events:
                            rest.append(event)  # noqa: PERF401  # what has come is kept if no more does
        except ModelError as error:
            self._write(request, heard, error)
            raise
        self._write(request, [*heard, *rest], None)
        for event in rest:
            yield event

    def _write(self, request: ModelRequest, events: Iterable[ModelEvent], error: ModelError | None) -> None:
        wire = {
            "model": request.model.slug,
            "properties": self._part(request.model),
            "instructions": self._part(request.instructions),
            "tools": self._part(request.tools),
            "input": [self._part(item) for item in request.prompt.items],
        }
        rest: dict[str, Any] = {
            "events": self._secrets.without(_join_secret_parts(events_to_wire(events), self._secrets))
        }
        if error is not None:
            fields = ("fact", "retryable", "retry_after_s", "info", "slug", "hint")
            rest["error"] = self._secrets.without({name: getattr(error, name) for name in fields})
        self._writer.write(self._parts, wire, rest)

    def _part(self, value: object) -> str:
        """Return the digest of a part. Items stay the same objects during a thread's life, so each is cleaned and hashed once.

        The value is kept, so that no other one gets its id.
        """
        known = self._digests.get(id(value))
        if known is not None:
            return known[1]
        clean = self._secrets.without(to_wire(value))
        name = digest(clean)
        self._parts[name] = clean
        self._digests[id(value)] = (value, name)
        return name


def _join_secret_parts(wires: Sequence[dict[str, Any]], secrets: Secrets) -> list[dict[str, Any]]:
    """Return recorded events in which no secret is split.

    Deltas of several texts may be interleaved. If a secret is in two of them, all of that text goes to its first place.
    """
    texts: dict[str, list[dict[str, Any]]] = {}
    for wire in wires:
        if "pieces" in wire:
            texts.setdefault(digest({**wire, "text": "", "pieces": 0}), []).append(wire)
    moved: set[int] = set()
    for first, *others in texts.values():
        runs = [first["text"], *(run["text"] for run in others)]
        if others and secrets.without("".join(runs)) != "".join(secrets.without(runs)):
            first["text"], first["pieces"] = "".join(runs), first["pieces"] + sum(run["pieces"] for run in others)
            moved.update(map(id, others))
    return [wire for wire in wires if id(wire) not in moved]
