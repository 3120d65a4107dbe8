"""Threads with messages only."""

from __future__ import annotations

import time

from codex_contrib_postgres.store import DatabaseStore
from codex_framework import ThreadMeta
from codex_framework.contract.protocol.events import UserMessageEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry, ThreadRecorder


def head(number: int = 1) -> ThreadMeta:
    return ThreadMeta(
        id=f"019a0000-0000-7000-8000-{number:012}",
        cwd="/work",
        created_at=time.time(),
        originator="test",
        source="exec",
        cli_version="0",
        model_provider="test",
    )


def say_to(recorder: ThreadRecorder, text: str) -> None:
    recorder.append([ItemEntry(user_message(text)), EventEntry(UserMessageEvent(text))])


def messages(store: DatabaseStore, number: int = 1) -> list[str]:
    return [event.message for event in store.load(head(number).id, "").events if isinstance(event, UserMessageEvent)]
