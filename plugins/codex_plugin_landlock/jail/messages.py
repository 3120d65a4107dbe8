"""Messages between the framework, the launcher and the sandboxes: JSON in one packet, with descriptors.

A message that does not fit in a packet is sent in a memory file, whose descriptor comes first.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

__all__ = ["receive", "send"]

_MAX_INLINE = 64 * 1024
_MAX_DESCRIPTORS = 8
_IN_FILE = b"F"
_INLINE = b"J"


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message.

    Raises:
        OSError: The other side is gone, or the packet did not fit.
    """
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) <= _MAX_INLINE:
        _send(connection, _INLINE + data, descriptors)
        return
    from .syscalls import memory_file

    file = memory_file("message")
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(data)
        _send(connection, _IN_FILE, (file, *descriptors))
    finally:
        os.close(file)


def _send(connection: socket.socket, data: bytes, descriptors: Sequence[int]) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    connection.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)


def receive(connection: socket.socket, flags: int = 0) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message with its descriptors, which are closed on exec. The message is None at the end of the connection.

    Raises:
        BlockingIOError: No message is available now.
        OSError: The connection broke.
    """
    space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, _, _ = connection.recvmsg(_MAX_INLINE + 1, space, flags | socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    passed = list(descriptors)
    if not data:
        return None, passed
    if data[:1] == _IN_FILE:
        with os.fdopen(passed.pop(0), "rb") as reader:
            reader.seek(0)
            return json.loads(reader.read()), passed
    return json.loads(data[1:]), passed
