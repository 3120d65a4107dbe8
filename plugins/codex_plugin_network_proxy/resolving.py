"""Name resolution by the system, on dedicated threads so that it does not block other threaded work."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable

__all__ = ["Resolve", "resolve"]

Resolve = Callable[[str], Awaitable[list[str]]]
"""A function that returns the addresses of a name, the preferred one first.

It raises ``socket.gaierror`` if the name has no addresses.
"""


async def resolve(host: str) -> list[str]:
    """Return the addresses of a name.

    If the call is cancelled, the lookup continues on its thread and its result is discarded.

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
            return  # the loop was closed during the lookup

    try:
        threading.Thread(target=look_up, name="codex-network-proxy-lookup", daemon=True).start()
    except RuntimeError as error:
        raise OSError(str(error)) from None  # too many threads
    return await addresses
