"""Name resolution by the system, on threads of its own so that it blocks no other threaded work."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable

__all__ = ["Resolve", "resolve"]

Resolve = Callable[[str], Awaitable[list[str]]]
"""Returns the addresses of a name, the preferred one first.

Raises ``socket.gaierror`` if there are none.
"""


async def resolve(host: str) -> list[str]:
    """Return the addresses of a name. A cancelled lookup continues on its own thread, and nothing waits for it.

    Raises:
        OSError: The name has no addresses (``socket.gaierror``), or it cannot be looked up.
    """
    loop = asyncio.get_running_loop()
    addresses: asyncio.Future[list[str]] = loop.create_future()

    def deliver(result: list[str] | Exception) -> None:
        if addresses.done():
            return
        if isinstance(result, Exception):
            addresses.set_exception(result)
        else:
            addresses.set_result(result)

    def look_up() -> None:
        result: list[str] | Exception
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            result = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except Exception as error:
            result = error
        try:
            loop.call_soon_threadsafe(deliver, result)
        except RuntimeError:
            return  # the loop has been closed in the meantime

    try:
        threading.Thread(target=look_up, name="codex-network-proxy-lookup", daemon=True).start()
    except RuntimeError as error:
        raise OSError(str(error)) from None  # there are too many threads
    return await addresses
