"""The private network of a sandbox: only the loopback address, and the listening sockets of a proxy on it."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Iterator

__all__ = ["HTTP_PORT", "SOCKS_PORT", "listening", "raise_loopback"]

HTTP_PORT, SOCKS_PORT = 3128, 8081
"""The ports of the proxy inside of a sandbox, which are the same as Codex's."""

_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 0x1


def raise_loopback() -> None:
    """Bring up the loopback interface of a new network namespace, so that 127.0.0.1 and ::1 work.

    Raises:
        OSError: The system refused it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack_from("16xH", fcntl.ioctl(control, _GET_FLAGS, request))
        try:
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
        except OSError as error:
            raise OSError(error.errno, error.strerror, "loopback interface") from error


@contextlib.contextmanager
def listening() -> Iterator[tuple[socket.socket, ...]]:
    """Yield sockets that listen on the proxy's ports, for HTTP and for SOCKS.

    They are closed on exit, because the process that receives them has its own copies.

    Raises:
        OSError: A port is in use.
    """
    with contextlib.ExitStack() as stack:
        sockets = []
        for port in (HTTP_PORT, SOCKS_PORT):
            listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
            sockets.append(listener)
        yield tuple(sockets)
