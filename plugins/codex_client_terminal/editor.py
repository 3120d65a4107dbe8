"""Writing in the person's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from codex_framework.toolkit.regular_files import open_regular

__all__ = ["edit_text"]


def edit_text(text: str, terminal: int) -> str | None:
    """Let the person edit a text in ``$VISUAL`` or ``$EDITOR``. Return the new text, or None if the editor has failed.

    Args:
        terminal: The descriptor of the terminal to write to.

    Raises:
        OSError: The editor cannot be started.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="codex-framework-") as folder:
        file = Path(folder, "message.md")
        file.write_text(text, encoding="utf-8")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise OSError(f"$EDITOR cannot be read: {error}") from error
        status = subprocess.run([*words, str(file)], stdout=terminal, stderr=terminal, check=False).returncode
        if status:
            return None
        with open(file, encoding="utf-8", errors="replace", opener=open_regular) as edited:
            return edited.read()
