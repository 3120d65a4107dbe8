"""The files of an exec-server, within permissions."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework import EnvironmentEntry, EnvironmentFiles, FileAccess
from codex_framework.contract.permissions.file_access import PathRule
from codex_framework.contract.protocol.permissions import AccessMode
from codex_plugin_environments.confining import path_of, sandbox_of, uri_of
from codex_plugin_environments.peer import RemoteError

__all__ = ["RemoteFiles"]

_BLOCK_BYTES = 1 << 20
"""The largest part of a file that the server sends in one response."""

_NOT_FOUND = -32004
_NO_NAME = re.compile("[/\0\ud800-\udfff]")
_NUMBER = re.compile(r"\(os error (\d+)\)\s*$")


Call = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class RemoteFiles(EnvironmentFiles):
    """The files of a server, read and written there under a sandbox. Read permissions are checked here as well.

    Args:
        call: Calls a method of the server.
        approved: The files that may be written in addition to ``access``.
    """

    def __init__(self, call: Call, access: FileAccess, cwd: str, approved: frozenset[str] = frozenset()) -> None:
        self._call_server = call
        self._access = access
        self._cwd = cwd
        self._approved = approved
        self._tasks: set[asyncio.Task[object]] = set()
        sandbox_of(access, cwd)  # raises SandboxError now rather than later

    async def read(self, path: str, limit: int) -> bytes:
        """Return a regular file."""
        real = await self._readable(path)
        handle = uuid.uuid4().hex
        data = bytearray()
        try:
            await self._call("fs/open", real, handleId=handle)
            while True:
                part = await self._remote("fs/readBlock", handleId=handle, offset=len(data), len=_BLOCK_BYTES)
                chunk = _decode_chunk(part.get("chunk"))
                data += chunk
                if len(data) > limit:
                    raise OSError(errno.EFBIG, f"the file is larger than {limit:,} bytes", path)
                if part.get("eof") is True:
                    return bytes(data)
                if not chunk:
                    raise _invalid(part)
        finally:
            self._aside("fs/close", handleId=handle)  # whoever is interrupted does not wait for it

    async def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        access = await self._access_for_change(path)
        folder = os.path.dirname(path)  # noqa: PTH120  # a path of another machine
        try:
            await self._call("fs/createDirectory", folder, access, recursive=True)
        except PermissionError:
            if not await self._is_folder(folder):
                raise
        await self._call("fs/writeFile", path, access, dataBase64=base64.b64encode(data).decode("ascii"))

    async def remove(self, path: str) -> None:
        """Delete a file."""
        access = await self._access_for_change(path)
        await self._call("fs/remove", path, access, recursive=False, force=False)

    async def list(self, path: str) -> Sequence[EnvironmentEntry]:
        """Return the entries of a folder."""
        answer = await self._call("fs/readDirectory", await self._readable(path))
        entries = answer.get("entries")
        if not isinstance(entries, list):
            raise _invalid(answer)
        found = [_entry(entry) for entry in entries]
        return sorted(found, key=lambda entry: entry.name)

    def with_writable(self, paths: Sequence[str]) -> RemoteFiles:
        """Return the files where these paths can be written, too."""
        return RemoteFiles(self._call_server, self._access, self._cwd, self._approved | set(paths))

    async def real_path(self, path: str) -> str:
        """Return the real path."""
        missing: list[str] = []
        at = os.path.normpath(path)
        while True:
            try:
                answer = await self._call("fs/canonicalize", at)
            except (FileNotFoundError, NotADirectoryError):
                if at == "/":
                    raise
                at, name = os.path.split(at)
                missing.insert(0, name)
                continue
            real = path_of(answer.get("path"))
            if real is None:
                raise _invalid(answer)
            return os.path.join(real, *missing)  # noqa: PTH118

    async def _readable(self, path: str) -> str:
        """Return the real path of a file that may be read. The server lets its own programs' folders be read always."""
        real = await self.real_path(path)
        if not (self._access.permits_reading(os.path.normpath(path)) and self._access.permits_reading(real)):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real

    async def _access_for_change(self, path: str) -> FileAccess:
        """Return the access for a change. An approved file is made writable with its folder, for this change only.

        The server cannot make a missing file writable, and a file cannot be deleted without its folder.
        """
        if path not in self._approved or self._access.full:
            return self._access
        folder = os.path.dirname(path)  # noqa: PTH120
        while folder != "/" and not await self._is_folder(folder):
            folder = os.path.dirname(folder)  # noqa: PTH120
        below = [
            rule
            for rule in self._access.rules
            if not (Path(path).is_relative_to(rule.path) and rule.path.is_relative_to(folder))
        ]
        rules = sorted([*below, PathRule(Path(folder), AccessMode.WRITE)], key=lambda rule: str(rule.path))
        return self._access.evolve(rules=tuple(rules))

    async def _is_folder(self, path: str) -> bool:
        try:
            answer = await self._call("fs/getMetadata", path)
        except ConnectionError:
            raise
        except OSError:
            return False
        return answer.get("isDirectory") is True

    async def _call(self, method: str, path: str, access: FileAccess | None = None, **params: Any) -> Mapping[str, Any]:
        sandbox = sandbox_of(access or self._access, self._cwd)
        confined = {} if sandbox is None else {"sandbox": sandbox}
        return await self._remote(method, path=uri_of(path), **params, **confined)

    def _aside(self, method: str, **params: Any) -> None:
        """Call a method without waiting for its answer."""
        task: asyncio.Task[object] = asyncio.ensure_future(self._call_server(method, params))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the server closes the file itself when the connection ends

    async def _remote(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Call a method. Raises OSError if the server refuses."""
        try:
            return await self._call_server(method, params)
        except RemoteError as error:
            raise _os_error(error, str(params.get("path", ""))) from None


def _os_error(error: RemoteError, uri: str) -> OSError:
    path, text = path_of(uri) or uri, str(error)
    found = _NUMBER.search(text)
    number = int(found[1]) if found else errno.ENOENT if error.code == _NOT_FOUND else 0
    if number == errno.EROFS or "permission denied" in text.lower():
        return PermissionError(number or errno.EACCES, _NUMBER.sub("", text).strip(), path)
    if text.endswith("is not a file"):
        return IsADirectoryError(errno.EISDIR, "Is a directory", path)
    return OSError(number, _NUMBER.sub("", text).strip(), path) if number else OSError(text)


def _entry(given: object) -> EnvironmentEntry:
    fields = given if isinstance(given, Mapping) else {}
    name = fields.get("fileName")
    if not isinstance(name, str) or name in ("", ".", "..") or _NO_NAME.search(name):
        raise _invalid(given)
    kind = "folder" if fields.get("isDirectory") is True else "file" if fields.get("isFile") is True else "other"
    return EnvironmentEntry(name, kind)


def _decode_chunk(chunk: object) -> bytes:
    try:
        return base64.b64decode(chunk, validate=True)  # type: ignore[arg-type]  # what is no text is a TypeError
    except (TypeError, ValueError):
        raise _invalid(chunk) from None


def _invalid(answer: object) -> OSError:
    return OSError(f"the server sent an invalid answer: {answer!r:.80}")
