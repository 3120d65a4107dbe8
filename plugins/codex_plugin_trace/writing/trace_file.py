"""The file of a trace: opened at the first line, appended to in whole lines, given up at the first error."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import PluginContext, __version__
from codex_framework.contract.errors import PluginError
from codex_framework.toolkit.appending import append_whole
from codex_framework.toolkit.real_folders import LinkInTheWayError, open_folder
from codex_plugin_trace.settings import Settings

__all__ = ["HEAD", "TraceFile", "trace_file"]

HEAD = b'{"type":"trace","version":1,'
"""How the first line of every trace begins. A file that begins differently is never appended to."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_HINT = "The turn is not affected. Name another file with --trace, or free some disk space."


def trace_file(plugin: PluginContext, settings: Settings, variable: str) -> TraceFile:
    """Return the file from the command line, the environment or the configuration, in this order.

    The path is resolved now, before the model has run anything, so that the trace cannot be redirected later.

    Args:
        variable: The value of the environment variable.
    """
    path = os.path.join(plugin.codex_home, settings.file)  # noqa: PTH118  # the first part is dropped if the second is absolute
    if variable and not (settings.file and _is_from_command_line(plugin)):
        path = os.path.abspath(variable)  # noqa: PTH100
    return TraceFile(path, has_content=settings.content)


def _is_from_command_line(plugin: PluginContext) -> bool:
    table: Any = next((layer.table for layer in plugin.layers if layer.name == "flags"), {})
    for key in ("framework", "plugins", plugin.name, "file"):
        table = table.get(key) if isinstance(table, Mapping) else None
    return table is not None


class TraceFile:
    """A trace that is being written. Its methods may be called on any thread.

    Args:
        path: An absolute path.
        has_content: Whether text of the user, of the model and of tools is written.
    """

    def __init__(self, path: str, *, has_content: bool) -> None:
        self.has_content = has_content
        self._path = path
        self._real = path if "\0" in path else os.path.realpath(path)
        self._descriptor: int | None = None
        self._given_up = False
        self._is_begun = False
        self._lock = threading.Lock()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records, in one write.

        Raises:
            PluginError: They cannot be written. This is said once; later records are dropped.
        """
        data = b"" if self._given_up else b"".join(map(_line, records))
        with self._lock:
            if self._given_up:
                return
            try:
                if self._descriptor is None:
                    self._descriptor, start = self._open()
                    data = start + data
                append_whole(self._descriptor, data, os.fstat(self._descriptor).st_size)
            except (OSError, ValueError) as error:
                self._close()
                self._given_up = True
                raise self._fault(error) from error

    def close(self) -> None:
        """Release the file. It is opened again if more is written."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> tuple[int, bytes]:
        """Open the file. Return its descriptor, and the text before the first record.

        Raises:
            OSError, ValueError: It cannot be opened, or it is not a trace.
        """
        folder, name = os.path.split(self._real)
        at = open_folder(folder)
        try:
            descriptor = os.open(name, _FLAGS, 0o600, dir_fd=at)
        finally:
            os.close(at)
        try:
            os.set_blocking(descriptor, True)
            start = _start(descriptor, has_content=self.has_content, again=self._is_begun)
            self._is_begun = True
            return descriptor, start
        except BaseException:
            os.close(descriptor)
            raise

    def _fault(self, error: OSError | ValueError) -> PluginError:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, LinkInTheWayError):
            reason = "it was exchanged for a symlink"
        return PluginError("trace", f"the trace {self._path!r} is not written: {reason}", slug="trace-file", hint=_HINT)


def _start(descriptor: int, *, has_content: bool, again: bool) -> bytes:
    """Return the head of a trace, after a line end if the last run was killed in the middle of a line.

    Args:
        again: Whether this run has written its head already, and only the line end may be missing. A record that is later than
            the end opens the file a second time.

    Raises:
        ValueError: The file contains something other than a trace.
    """
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("it is not a regular file")
    if about.st_size and os.pread(descriptor, len(HEAD), 0) != HEAD:
        raise ValueError("the file exists and is not a trace")
    is_cut = about.st_size and os.pread(descriptor, 1, about.st_size - 1) != b"\n"
    end = b"\n" if is_cut else b""
    if again and about.st_size:
        return end
    head = {"by": f"codex-framework {__version__}", "time": time.time(), "content": has_content}
    return end + HEAD + json.dumps(head, separators=(",", ":")).encode()[1:] + b"\n"


def _line(record: Mapping[str, Any]) -> bytes:
    # A lone surrogate (from a file name that is not UTF-8) becomes "?".
    text = json.dumps(record, default=str, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"
