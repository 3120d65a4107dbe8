"""Writing in the person's editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
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
