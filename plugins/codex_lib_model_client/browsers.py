"""Opens pages in the user's browser, for logins. The address is always shown too, so nothing depends on the browser."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping

__all__ = ["open_in_browser"]


def open_in_browser(address: str, environ: Mapping[str, str]) -> bool:
    """Open an address in a graphical browser, and return immediately whether one may exist.

    A browser is tried if ``BROWSER`` or a display is set, and always on macOS and Windows. It runs in its own session, so that
    a text browser cannot take over this terminal. The program in ``BROWSER`` may run without a time limit.

    Args:
        environ: The environment variables, which choose the browser as in the module ``webbrowser``.
    """
    shown = any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform != "darwin" and os.name != "nt" and not shown:
        return False
    threading.Thread(target=_open, args=(address, environ), name="browser", daemon=True).start()
    return True


def _open(address: str, environ: Mapping[str, str]) -> None:
    command = [
        sys.executable,
        "-I",
        "-m",
        "webbrowser",
        address,
    ]  # isolated: the folder could have a `webbrowser.py` of its own
    null = subprocess.DEVNULL
    with contextlib.suppress(OSError, ValueError):
        subprocess.run(
            command, stdin=null, stdout=null, stderr=null, env=dict(environ), start_new_session=True, check=False
        )
