from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ThreadMeta
from codex_plugin_rollout import RolloutStore

THREAD = "01a1fa36-db98-75f0-a6d6-2445f13ac227"


@pytest.fixture
def store() -> RolloutStore:
    return RolloutStore()


@pytest.fixture
def meta(tmp_path: Path) -> ThreadMeta:
    return ThreadMeta(
        id=THREAD,
        cwd=str(tmp_path / "work"),
        created_at=1795199261.5,
        originator="codex_exec",
        source="exec",
        cli_version="0.1.0",
        model_provider="mock",
        base_instructions="Be good.",
    )


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


@pytest.fixture
def rollout(home: str) -> Callable[..., Path]:
    """Write a rollout file from (kind, payload) pairs; the head comes by itself."""

    def write(*lines: tuple[str, Any], thread_id: str = THREAD, day: str = "2026/11/20", **head: Any) -> Path:
        folder = Path(home) / "sessions" / day
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-{day.replace('/', '-')}T18-27-41-{thread_id}.jsonl"
        first = (
            "session_meta",
            {"id": thread_id, "timestamp": "2026-11-20T18:27:41.599Z", "cwd": "/w", "source": "exec", **head},
        )
        stamp = "2026-11-20T18:27:41.623Z"
        text = [json.dumps({"timestamp": stamp, "type": kind, "payload": payload}) for kind, payload in (first, *lines)]
        path.write_text("\n".join(text) + "\n")
        return path

    return write
