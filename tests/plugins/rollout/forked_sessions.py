"""A session of Codex with a fork, and a fork of the fork, recorded in the folder ``forked``."""

from __future__ import annotations

import shutil
from pathlib import Path

from codex_framework.contract.protocol.items import Message, message_text
from codex_framework.contract.roles.stores import StoredThread

FORKED = Path(__file__).with_name("forked")
THREAD = "01a20497-a811-7cb3-859b-50b6e7ed89a1"
FORK = "01a20497-a961-7a71-a514-749609e5140a"
FORK_OF_FORK = "01a20497-aa2d-7661-8851-68136df54adb"


def copied(home: str) -> Path:
    """Put the sessions into a home, and return their folder."""
    folder = Path(home) / "sessions/2026/11/22"
    shutil.copytree(FORKED, folder)
    return folder


def said(stored: StoredThread) -> list[str]:
    """Return what the user and the model have said."""
    texts = [message_text(item) for item in stored.history if isinstance(item, Message) and item.role != "developer"]
    return [text for text in texts if not text.startswith("<")]
