"""Opens listening sockets on the loopback address of another process's network, and passes them back. Run by ``python -I -S``.

    python listening.py PID DESCRIPTOR PORT...

The sockets are sent over the unix socket DESCRIPTOR, in the order of the ports. Only the standard library is used.
"""

from __future__ import annotations

import array
import ctypes
import os
import socket
import sys

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_FREEBIND = 15
"""``IP_FREEBIND``: the address may not exist yet, because the network is set up a moment later."""

_BACKLOG = 128


def main() -> None:
    """Enter the network and open the sockets."""
    pid, descriptor, *ports = map(int, sys.argv[1:])
    libc = ctypes.CDLL(None, use_errno=True)
    opened = [
        (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind)
        for name, kind in (("user", _NEW_USER), ("net", _NEW_NET))
    ]
    for namespace, kind in opened:
        if libc.setns(namespace, kind) != 0:
            number = ctypes.get_errno()
            sys.exit(f"the network of the sandbox cannot be joined: {os.strerror(number)}")
    sockets = []
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.IPPROTO_IP, _FREEBIND, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
        sockets.append(listener)
    with socket.socket(fileno=descriptor) as answer:
        rights = array.array("i", [listener.fileno() for listener in sockets])
        answer.sendmsg([b"ok"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


main()
