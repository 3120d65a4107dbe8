"""A network of a sandbox's own: the loopback address and nothing else, and the sockets on it where a proxy listens."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Iterator

__all__ = ["HTTP_PORT", "SOCKS_PORT", "listening", "raise_loopback"]

HTTP_PORT, SOCKS_PORT = 3128, 8081
"""Where a command finds its proxy (Codex's ports)."""

_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 0x1


def raise_loopback() -> None:
    """Bring the loopback interface of a new network namespace up; 127.0.0.1 and ::1 work from then on.

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
    """Listening sockets at the proxy's ports, for HTTP and for SOCKS; closed here afterwards, for who they were sent to has his own.

    Raises:
        OSError: A port is taken.
    """
    with contextlib.ExitStack() as opened:
        sockets = []
        for port in (HTTP_PORT, SOCKS_PORT):
            made = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", port))
            made.listen(128)
            sockets.append(made)
        yield tuple(sockets)
