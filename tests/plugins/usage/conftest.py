from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.cli.main import main
from codex_plugin_usage.scan import Report, scan

THREAD = "01a1fa36-db98-75f0-a6d6-2445f13ac227"
STAMP = "2026-11-20T18:27:41.623Z"

Line = tuple[str, Any] | tuple[str, Any, str] | bytes
"""Kind and payload of a line, with its time or without; or its bytes."""


def sums(*numbers: int) -> dict[str, int]:
    """A ``TokenUsage`` from input, cached input, output and reasoning; those left out are 0."""
    given, cached, output, reasoning = (*numbers, 0, 0, 0, 0)[:4]
    return {
        "input_tokens": given,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": given + output,
    }


def counted(total: tuple[int, ...], last: tuple[int, ...] | None, stamp: str = STAMP) -> tuple[str, Any, str]:
    """A ``token_count`` line."""
    info = {"total_token_usage": sums(*total)} | ({} if last is None else {"last_token_usage": sums(*last)})
    return "event_msg", {"type": "token_count", "info": info}, stamp


def recorded(usage: tuple[int, ...], thread: str = THREAD, response: str = "resp_1") -> tuple[str, Any]:
    """A ``token_usage_record`` line."""
    return "token_usage_record", {"thread_id": thread, "response_id": response, "usage": sums(*usage)}


def turn(turn_id: str | None = None, model: str = "m", stamp: str = STAMP, **more: Any) -> list[tuple[str, Any, str]]:
    """The lines at the start of a turn."""
    own = {} if turn_id is None else {"turn_id": turn_id}
    return [
        ("event_msg", {"type": "task_started", **own, **more}, stamp),
        ("turn_context", {**own, "cwd": "/w", "model": model}, stamp),
    ]


def called(name: str, call_id: str = "c1", stamp: str = STAMP, **more: Any) -> tuple[str, Any, str]:
    return (
        "response_item",
        {"type": "function_call", "name": name, "arguments": "{}", "call_id": call_id, **more},
        stamp,
    )


def answered(output: Any, call_id: str = "c1", stamp: str = STAMP) -> tuple[str, Any, str]:
    return "response_item", {"type": "function_call_output", "call_id": call_id, "output": output}, stamp


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def session(home: Path) -> Callable[..., Path]:
    """Write a session file; its head comes by itself."""

    def write(
        *lines: Line, thread: str = THREAD, day: str = "2026/11/20", folder: Path | None = None, **head: Any
    ) -> Path:
        folder = home / "sessions" / day if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-{day.replace('/', '-')}T18-27-41-{thread}.jsonl"
        first = ("session_meta", {"id": thread, "timestamp": STAMP, "cwd": "/w", "model_provider": "mock", **head})
        path.write_bytes(b"".join(map(encoded, (first, *lines))))
        return path

    return write


def encoded(line: Line) -> bytes:
    if isinstance(line, bytes):
        return line
    kind, payload, stamp = (*line, STAMP)[:3]
    text = json.dumps({"timestamp": stamp, "type": kind, "payload": payload}, separators=(",", ":"))
    return text.encode() + b"\n"


@pytest.fixture
def total(home: Path) -> Callable[..., tuple[int, int, int, int]]:
    """Return input, cached input, output and reasoning of all sessions."""

    def read(**query: Any) -> tuple[int, int, int, int]:
        amounts = scan(home, **query).total.amounts
        return amounts.input, amounts.cached_input, amounts.output, amounts.reasoning

    return read


@pytest.fixture
def rows(home: Path) -> Callable[..., dict[str, Any]]:
    """Return the rows of a report as JSON, by key."""

    def read(**query: Any) -> dict[str, Any]:
        return {row["key"]: row for row in scan(home, **query).as_json()["rows"]}

    return read


@pytest.fixture
def usage(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run ``codex-framework usage``. Returns the exit status, the output and the errors."""
    monkeypatch.setenv("CODEX_HOME", str(home))
    monkeypatch.chdir(home)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["usage", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def copied_from(home: Path) -> Callable[[Path], Path]:
    """Copy recorded session files into a day's folder."""

    def copy(source: Path) -> Path:
        target = home / "sessions/2026/11/22"
        shutil.copytree(source, target, dirs_exist_ok=True)
        return target

    return copy


def tokens_by_key(report: Report) -> dict[str, int]:
    return {row["key"]: row["tokens"]["total"] for row in report.as_json()["rows"]}
