"""Sessions on disk, and ``codex-framework why`` about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework import CodexError
from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_plugin_provenance.command import why as why_command

ID = "019f2c1e-7807-74a8-8db7-4a061f4c8922"
OTHER = "019f2c1e-9999-74a8-8db7-4a061f4c8922"


class Sessions:
    """The sessions of one ``$CODEX_HOME``."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def write(self, lines: Sequence[Any], *, id: str = ID, folder: str = "sessions/2026/11/23", **head: Any) -> Path:  # noqa: A002
        """Write a session of some lines: pairs of type and payload, or bytes."""
        path = self.home / folder / f"rollout-2026-11-23T02-53-17-{id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = [
            ("session_meta", {"id": id, "cwd": "/work", "originator": "codex_exec", "cli_version": "1.2.3", **head}),
            *lines,
        ]
        path.write_bytes(
            b"".join(line if isinstance(line, bytes) else encoded(*line, n) for n, line in enumerate(whole))
        )
        return path


def encoded(kind: str, payload: Any, ordinal: int) -> bytes:
    """Return a line."""
    raw = {"timestamp": "2026-11-23T02:53:17.711Z", "ordinal": ordinal, "type": kind, "payload": payload}
    return json.dumps(raw).encode() + b"\n"


def started(turn: str = "turn-1") -> tuple[str, Any]:
    """Return the start of a turn."""
    return "event_msg", {"type": "task_started", "turn_id": turn}


def said(text: str, role: str = "user", **more: Any) -> tuple[str, Any]:
    """Return a message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}


def called(call_id: str = "c1", name: str = "echo", **arguments: Any) -> tuple[str, Any]:
    """Return a call."""
    return "response_item", {
        "type": "function_call",
        "name": name,
        "arguments": json.dumps(arguments),
        "call_id": call_id,
    }


def returned(text: str, call_id: str = "c1") -> tuple[str, Any]:
    """Return the output of a call."""
    return "response_item", {"type": "function_call_output", "call_id": call_id, "output": text}


def noted(turn: str | None = "turn-1", **data: Any) -> tuple[str, Any]:
    """Return an entry of the record."""
    entry = {"plugin": "house", "kind": "provenance", "data": data}
    return "plugin_entry", {**entry, **({} if turn is None else {"turn_id": turn})}


HOUSE = {"role": "interceptor", "name": "guard", "plugin": "house"}


@pytest.fixture
def sessions(codex_home: Path) -> Sessions:
    return Sessions(codex_home)


@pytest.fixture
def why(codex_home: Path, workspace: Path) -> Callable[..., str]:
    """Run the command and return what it prints. An error of the framework is raised."""

    def run(*words: str) -> str:
        environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin", "HOME": str(codex_home)}
        context = LoadContext("provenance", load_config(cwd=workspace, environ=environ), environ)
        result = CliRunner().invoke(why_command, words, obj=context)
        if isinstance(result.exception, CodexError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return run
