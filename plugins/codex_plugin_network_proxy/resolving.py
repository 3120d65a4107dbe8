"""Names to addresses, as the system does it, without holding up anything else that runs on threads."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable

__all__ = ["Resolve", "resolve"]

Resolve = Callable[[str], Awaitable[list[str]]]
"""Gives the addresses of a name, the preferred one first.

Raises ``socket.gaierror`` where there are none.
"""


async def resolve(host: str) -> list[str]:
    """The addresses of a name. A lookup that is given up goes on, on a thread of its own that nothing waits for.

    Raises:
        OSError: There are none (``socket.gaierror``), or they cannot be looked up.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(result: list[str] | Exception) -> None:
        if found.done():
            return
        if isinstance(result, Exception):
            found.set_exception(result)
        else:
            found.set_result(result)

    def look_up() -> None:
        result: list[str] | Exception
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            result = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except Exception as error:
            result = error
        try:
            loop.call_soon_threadsafe(tell, result)
        except RuntimeError:
            return  # the loop has been closed meanwhile

    try:
        threading.Thread(target=look_up, name="codex-network-proxy-lookup", daemon=True).start()
    except RuntimeError as error:
        raise OSError(str(error)) from None  # there are too many threads
    return await found
