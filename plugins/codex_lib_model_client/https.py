"""Loads httpx and the certificates for TLS, both as late and as cheaply as possible.

For plugins that talk HTTP. Importing httpx and loading certificates takes some 30 ms each, so call these functions when the first
request is due. Neither needs the event loop, so they can run in a thread.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

__all__ = ["httpx_module", "in_openssl", "loading_failure", "preload", "tls_context", "tls_files"]

_END_S = 5.0
_loading = threading.Lock()
"""Locked while certificates are loaded, so that concurrent users wait for them. The end of the program locks it permanently:
OpenSSL then frees its memory, and a thread inside OpenSSL at that moment would crash the program.
"""
atexit.register(_loading.acquire, timeout=_END_S)


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


@contextlib.contextmanager
def in_openssl() -> Iterator[None]:
    """Keep the program from ending in the meantime. For daemon threads that call OpenSSL, each time for a moment.

    Do not call :func:`tls_context` within it.
    """
    with _loading:
        yield


def tls_context(environ: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """Return the TLS context for clients, which trusts the same certificates as httpx.

    They come from ``$SSL_CERT_FILE``, else from the folder ``$SSL_CERT_DIR``, else from ``certifi``. A file that
    ``$CODEX_CA_CERTIFICATE`` names comes before the others, as in Codex, and is trusted in addition to ``certifi``. They are
    loaded once for each value of the variables, so do not change the context that you get.

    Args:
        environ: The environment variables, such as ``PluginContext.environ``; by default the variables of the process.

    Raises:
        OSError: The certificates cannot be loaded. ``ssl.SSLError`` is one.
        ValueError: The variables name no valid path.
    """
    with _loading:
        return _loaded_context(*_trust_files(os.environ if environ is None else environ))


def loading_failure(error: Exception, environ: Mapping[str, str] | None = None) -> str:
    """Return the sentence about certificates that :func:`tls_context` could not load, with the variable that names them."""
    own, file, folder = _trust_files(os.environ if environ is None else environ)
    reason = getattr(error, "strerror", None) or str(error)
    if "NO_CERTIFICATE" in str(error):
        reason = "it contains no certificate"
    named = (("CODEX_CA_CERTIFICATE", own), ("SSL_CERT_FILE", file), ("SSL_CERT_DIR", folder))
    where = next((f"{variable} is {value}: " for variable, value in named if value), "")
    return f"the certificates for checking servers cannot be loaded: {where}{reason}"


def tls_files(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files whose certificates :func:`tls_context` trusts. Empty if it trusts the certificates in a folder.

    Args:
        environ: As for :func:`tls_context`.
    """
    own, file, folder = _trust_files(environ)
    if file or folder:
        return (file,) if file else ()
    return (own, _certifi_file()) if own else (_certifi_file(),)


def preload(environ: Mapping[str, str]) -> None:
    """Load the prerequisites of the first request over TLS on another thread: the certificates, and the encoding of host names.

    For programs whose first request follows soon. The certificates take some 20 ms, in which the GIL is free. Failures have no
    effect: the request reports them.

    Args:
        environ: See :func:`tls_context`.
    """
    threading.Thread(target=_preload, args=(dict(environ),), name="preload", daemon=True).start()


def _trust_files(environ: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    """Return the file that is trusted in addition to certifi, else the file in place of it, else the folder in place of it."""
    own = environ.get("CODEX_CA_CERTIFICATE") or None
    file = None if own else environ.get("SSL_CERT_FILE") or None
    return own, file, None if own or file else environ.get("SSL_CERT_DIR") or None


def _preload(environ: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        tls_context(environ)
    "host".encode("idna")  # which imports the encoding


@cache
def _loaded_context(own: str | None, file: str | None, folder: str | None) -> ssl.SSLContext:
    import ssl

    if file or folder:
        context = ssl.create_default_context(cafile=file, capath=folder)
    else:
        context = ssl.create_default_context(cafile=_certifi_file())
        if own:
            context.load_verify_locations(cafile=own)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _certifi_file() -> str:
    """Return the path of certifi's certificates, without importing certifi, which imports ``importlib.resources``."""
    from importlib.machinery import PathFinder  # importlib.util, which asks all finders, takes longer to import

    spec = PathFinder.find_spec("certifi")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        file = Path(folder, "cacert.pem")
        if file.is_file():
            return str(file)
    import certifi

    return certifi.where()
