"""Writing in the person's editor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from codex_framework.toolkit.regular_files import open_regular

__all__ = ["edit_text"]


async def edit_text(text: str, terminal: int) -> str | None:
    """Let the person edit a text in ``$VISUAL`` or ``$EDITOR``. Return the new text, or None if the editor has failed.

    Args:
        terminal: The descriptor of the terminal to write to.

    Raises:
        OSError: The editor cannot be started.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(command) or ["vi"]
    except ValueError as error:
        raise OSError(f"$EDITOR cannot be read: {error}") from error
    with tempfile.TemporaryDirectory(prefix="codex-framework-") as folder:
        file = Path(folder, "message.md")
        file.write_text(text, encoding="utf-8", errors="replace")
        with _signals_for_editor():
            process = await asyncio.create_subprocess_exec(*words, str(file), stdout=terminal, stderr=terminal)
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
        if status:
            return None
        with open(file, encoding="utf-8", errors="replace", opener=open_regular) as edited:
            return edited.read()


@contextlib.contextmanager
def _signals_for_editor() -> Iterator[None]:
    """Leave ^C to the editor for the block, and let ^Z stop this process together with it."""
    kept = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, signal.SIG_DFL),
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
