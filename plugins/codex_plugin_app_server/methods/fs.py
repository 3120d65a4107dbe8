"""Files of this machine, for clients that run elsewhere. A client has the user's permissions, as in a terminal."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from codex_framework.toolkit.regular_files import open_regular, read_regular
from codex_plugin_app_server.connection import Connection
from codex_plugin_app_server.errors import INTERNAL_ERROR, OVERLOADED, RpcError
from codex_plugin_app_server.file_watching import Watch
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

T = TypeVar("T")

StrPath: TypeAlias = "str | os.PathLike[str]"

_LARGEST = 256 << 20
"""Bytes of a file that are read or written in one step."""

_GATHERING_S = 0.2
"""How long changes are gathered before the client is told, as in Codex."""

_MOST_WATCHES = 128
"""Watched paths of one client."""


@table.method("fs/readFile", "FsReadFileParams", "FsReadFileResponse", concurrent=True)
async def read_file(call: Call) -> Json:
    """Return the content of a file."""
    path = _path(call, "path")

    def read() -> str:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RpcError(f"path `{path}` is not a file")
        return base64.b64encode(read_regular(path, _LARGEST)).decode("ascii")

    return {"dataBase64": await _off_loop(read)}


@table.method("fs/writeFile", "FsWriteFileParams", "FsWriteFileResponse")
async def write_file(call: Call) -> Json:
    """Write a file, which is created or replaced."""
    path = _path(call, "path")
    try:
        data = base64.b64decode(call.params["dataBase64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError(f"fs/writeFile requires valid base64 dataBase64: {error}") from None

    def write() -> None:
        with _writable(path) as file:
            file.write(data)

    await _off_loop(write)
    return {}


@table.method("fs/createDirectory", "FsCreateDirectoryParams", "FsCreateDirectoryResponse")
async def create_directory(call: Call) -> Json:
    """Create a folder, with those around it unless the client says otherwise."""
    path = _path(call, "path")
    if call.params.get("recursive") is False:
        await _off_loop(path.mkdir)
    else:
        await _off_loop(lambda: path.mkdir(parents=True, exist_ok=True))
    return {}


@table.method("fs/getMetadata", "FsGetMetadataParams", "FsGetMetadataResponse", concurrent=True)
async def get_metadata(call: Call) -> Json:
    """Return the kind of a file and when it has changed."""
    path = _path(call, "path")

    def read() -> dict[str, Any]:
        found = path.stat()
        return {
            **_kind(found.st_mode),
            "isSymlink": path.is_symlink(),
            "createdAtMs": int(getattr(found, "st_birthtime", 0) * 1000),
            "modifiedAtMs": found.st_mtime_ns // 1_000_000,
        }

    return await _off_loop(read)


@table.method("fs/readDirectory", "FsReadDirectoryParams", "FsReadDirectoryResponse", concurrent=True)
async def read_directory(call: Call) -> Json:
    """Return the names in a folder. Broken links are left out."""
    path = _path(call, "path")

    def read() -> list[Json]:
        entries: list[Json] = []
        with os.scandir(path) as found:
            for entry in found:
                try:
                    mode = entry.stat().st_mode
                except OSError:
                    continue
                entries.append({"fileName": _display_name(entry.name), **_kind(mode)})
        return sorted(entries, key=lambda entry: str(entry["fileName"]))

    return {"entries": await _off_loop(read)}


@table.method("fs/copy", "FsCopyParams", "FsCopyResponse")
async def copy(call: Call) -> Json:
    """Copy a file, a link, or with ``recursive`` a folder."""
    source, target = _path(call, "sourcePath"), _path(call, "destinationPath")
    recursive = bool(call.params.get("recursive"))
    await _off_loop(lambda: _copy(source, target, recursive=recursive))
    return {}


@table.method("fs/remove", "FsRemoveParams", "FsRemoveResponse")
async def remove(call: Call) -> Json:
    """Remove a file, or a folder with its content unless the client says otherwise."""
    path = _path(call, "path")
    force, recursive = call.params.get("force") is not False, call.params.get("recursive") is not False

    def delete() -> None:
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            if not force:
                raise
            return
        if not stat.S_ISDIR(mode):
            path.unlink()
        elif recursive:
            shutil.rmtree(path)
        else:
            path.rmdir()

    await _off_loop(delete)
    return {}


@table.method("fs/watch", "FsWatchParams", "FsWatchResponse")
async def watch(call: Call) -> Json:
    """Tell the client by `fs/changed` when a file or the direct contents of a folder change. The path need not exist yet."""
    path, watch_id, connection = str(_path(call, "path")), call.params["watchId"], call.connection
    key = (connection, watch_id)
    if key in _watches:
        raise RpcError(f"watchId already exists: {watch_id}")
    if sum(each is connection for each, _ in _watches) >= _MOST_WATCHES:
        raise RpcError(f"{_MOST_WATCHES} paths are watched already", OVERLOADED)
    changed = asyncio.Event()
    watched = Watch(path, changed.set)
    watcher = call.server.file_watcher

    async def tell() -> None:
        while await changed.wait():
            await asyncio.sleep(_GATHERING_S)
            await connection.room()
            changed.clear()
            connection.notify("fs/changed", {"watchId": watch_id, "changedPaths": watched.take()})

    def forget(_: object) -> None:
        del _watches[key]
        watcher.remove(watched)

    try:
        await watcher.add(watched)
    except (OSError, RuntimeError) as error:
        raise RpcError(f"cannot watch `{path}`: {error}", INTERNAL_ERROR) from None
    _watches[key] = task = connection.run_beside(tell())
    task.add_done_callback(forget)
    return {"path": path}


@table.method("fs/unwatch", "FsUnwatchParams", "FsUnwatchResponse")
async def unwatch(call: Call) -> Json:
    """Watch a path no longer."""
    task = _watches.get((call.connection, call.params["watchId"]))
    if task is not None:
        task.cancel()
        await asyncio.wait((task,))
    return {}


_watches: dict[tuple[Connection, str], asyncio.Task[None]] = {}
"""The watchers that report changes, by the client's name for each."""


def _copy(source: Path, target: Path, *, recursive: bool) -> None:
    mode = source.lstat().st_mode
    if stat.S_ISLNK(mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISREG(mode):
        _copy_file(source, target)
    elif not stat.S_ISDIR(mode):
        raise RpcError("fs/copy only supports regular files, directories, and symlinks")
    elif not recursive:
        raise RpcError("fs/copy requires recursive: true when sourcePath is a directory")
    elif target.resolve().is_relative_to(source.resolve()):
        raise RpcError("fs/copy cannot copy a directory to itself or one of its descendants")
    else:
        shutil.copytree(source, target, symlinks=True, ignore=_others, copy_function=_copy_file, dirs_exist_ok=True)


def _writable(path: StrPath) -> BinaryIO:
    """Open a regular file for writing, and no pipe or device. Raises OSError."""
    return os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), "wb")


def _copy_file(source: StrPath, target: StrPath) -> None:
    """Copy a regular file with its permissions. It may have changed its type since it was checked."""
    with os.fdopen(open_regular(source), "rb") as data, _writable(target) as copied:
        shutil.copyfileobj(data, copied)
        os.fchmod(copied.fileno(), stat.S_IMODE(os.fstat(data.fileno()).st_mode))


def _others(folder: str, names: list[str]) -> list[str]:
    """Return the names of what cannot be copied: pipes, sockets and devices."""

    def is_other(name: str) -> bool:
        mode = Path(folder, name).lstat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))

    return [name for name in names if is_other(name)]


def _kind(mode: int) -> dict[str, Any]:
    return {"isDirectory": stat.S_ISDIR(mode), "isFile": stat.S_ISREG(mode)}


def _display_name(name: str) -> str:
    """Return a name as JSON can carry it. One that is not UTF-8 cannot be opened by it."""
    return os.fsencode(name).decode("utf-8", "replace")


def _path(call: Call, key: str) -> Path:
    """Return an absolute path. Raises RpcError."""
    path = str(call.params[key])
    if "\0" in path:
        raise RpcError(f"a path cannot contain the character NUL: {path!r}")
    return Path(os.path.normpath(path))


async def _off_loop(function: Callable[[], T]) -> T:
    """Call a function on a separate thread. Raises RpcError for errors of the system, in Codex's words."""
    try:
        return await asyncio.to_thread(function)
    except shutil.Error as error:
        raise RpcError("; ".join(str(problem[2]) for problem in error.args[0]), INTERNAL_ERROR) from None
    except OSError as error:
        text = f"{error.strerror} (os error {error.errno})" if error.errno else str(error)
        raise RpcError(text, INTERNAL_ERROR) from None
