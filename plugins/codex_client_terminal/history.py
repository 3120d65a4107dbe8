"""Prompts of earlier sessions, from the file that Codex's interfaces share."""

from __future__ import annotations

import json
import os
from pathlib import Path

from codex_framework.toolkit.regular_files import open_regular

__all__ = ["recent_prompts"]

_MOST = 200
_LARGEST = 1 << 18


def recent_prompts(home: Path) -> list[str]:
    """Return the newest prompts in ``$CODEX_HOME/history.jsonl``, the oldest first. Empty if it cannot be read."""
    try:
        with open(home / "history.jsonl", "rb", opener=open_regular) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LARGEST))
            data = file.read()
    except OSError:
        return []
    prompts = []
    for line in data.splitlines()[-_MOST:]:
        try:
            text = json.loads(line).get("text")
        except (ValueError, AttributeError):
            continue
        if isinstance(text, str):
            prompts.append(text)
    return prompts
