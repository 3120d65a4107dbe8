"""Runs of the command on a terminal."""

from __future__ import annotations

import os
import pty
import threading
from typing import Any


def on_a_terminal(cli: Any, *argv: str, **env: str) -> str:
    """Return what a person sees of a run on a terminal."""
    master, slave = pty.openpty()
    heard: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # the other end was closed
                return
            if not data:
                return
            heard.append(data)

    listener = threading.Thread(target=listen)
    listener.start()
    process = cli.start(*argv, stdout=slave, stderr=slave, env=cli.env | {"COLUMNS": "40", **env})
    os.close(slave)
    assert process.wait(30) == 0
    listener.join(60)
    os.close(master)
    return b"".join(heard).decode()
