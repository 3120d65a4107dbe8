"""Loads httpx and the certificates for TLS, both as late and as cheaply as possible.

For plugins that talk HTTP. Importing httpx and loading certificates takes some 30 ms each, so call these functions when the first
request is due. Neither needs the event loop, so they can run in a thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

__all__ = ["httpx_module", "tls_context"]


@cache
def httpx_module() -> Any:
    """Import ``httpx`` without its command-line client, and return the module.

    ``httpx/__init__`` imports the command-line client, and with it click, rich and pygments if these are installed (30 to 50 ms).
    If that import fails, httpx works without it. None in ``sys.modules`` makes an import fail, which Python documents. If another
    part of the program has imported httpx, that module is returned.

    Raises:
        ImportError: httpx is not installed.
    """
    if "httpx" in sys.modules or "httpx._main" in sys.modules:
        import httpx

        return httpx
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    modules["httpx._main"] = None
    try:
        import httpx
    finally:
        del modules["httpx._main"]
    return httpx


def tls_context(environ: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """Return the TLS context for clients, which trusts the same certificates as httpx.

    These are those of ``$SSL_CERT_FILE``, else of the folder ``$SSL_CERT_DIR``, else of ``certifi``. They are loaded once for each
    value of the variables, so do not change the context that you get.

    Args:
        environ: The environment variables, such as ``PluginContext.environ``. None means those of the process.

    Raises:
        OSError: The certificates cannot be loaded. ``ssl.SSLError`` is one.
        ValueError: The variables name no valid path.
    """
    variables = os.environ if environ is None else environ
    file = variables.get("SSL_CERT_FILE") or None
    return _loaded_context(file, None if file else variables.get("SSL_CERT_DIR") or None)


@cache
def _loaded_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    import ssl

    if file or folder:
        return ssl.create_default_context(cafile=file, capath=folder)
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
