"""Detects whether the user is looking at a terminal.

Only a terminal multiplexer knows, because the terminal's input belongs to other code.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from codex_framework.toolkit.programs import found_program

__all__ = ["is_watched"]

_PATIENCE_S = 1.0
"""How long tmux may take to answer, in seconds."""

_FORMAT = "#{pane_tty} #{focus-events} #{pane_active} #{window_active} #{session_attached} #{client_flags}"


def is_watched(device: str, environ: Mapping[str, str]) -> bool:
    """Return whether a terminal is a visible pane of tmux, in a terminal that has the focus. False if that is unknown.

    tmux knows the focus if its option ``focus-events`` is on, and reports it for one client.

    Args:
        device: The terminal's device.
        environ: The variables of the process, which name tmux's server and the pane.
    """
    socket, pane = environ.get("TMUX", "").partition(",")[0], environ.get("TMUX_PANE", "")
    tmux = found_program("tmux", environ.get("PATH", os.defpath))
    if not socket or not pane or tmux is None:
        return False
    try:
        answer = subprocess.run(
            [tmux, "-S", socket, "display-message", "-p", "-t", pane, _FORMAT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            timeout=_PATIENCE_S,
            check=False,
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    words = answer.decode("utf-8", "replace").split()
    return words[:5] == [device, "1", "1", "1", "1"] and "focused" in "".join(words[5:6]).split(",")
