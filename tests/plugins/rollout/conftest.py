from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

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


@pytest.fixture
def app_server(tmp_path: Path, codex_binary: str) -> Callable[[str], AppServer]:
    """Start the app server of the real Codex, whose models are at a URL."""
    return lambda url: AppServer(codex_binary, tmp_path / "home", tmp_path / "work", url)


class AppServer:
    """A running app server of the real Codex. A context manager."""

    def __init__(self, binary: str, codex_home: Path, cwd: Path, url: str) -> None:
        codex_home.mkdir(parents=True, exist_ok=True)
        cwd.mkdir(parents=True, exist_ok=True)
        provider = f'model_providers.mock={{name="mock",base_url="{url}",wire_api="responses",stream_max_retries=0}}'
        self._process = subprocess.Popen(
            [binary, "-c", provider, "-c", "model_provider=mock", "-c", "model=gpt-5.5", "app-server"],
            cwd=cwd,
            env={"HOME": str(codex_home.parent), "CODEX_HOME": str(codex_home), "PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        client = {"name": "tests", "title": "Tests", "version": "1"}
        self.request("initialize", clientInfo=client, capabilities={"experimentalApi": True})
        self._send(method="initialized")
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._reader.join(20)
        self._process.stdout.close()

    def request(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send(id=self._number, method=method, params=params)
        answer = self._wait(lambda message: message.get("id") == self._number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    def turn(self, thread: str, text: str, **settings: Any) -> str:
        """Run a turn to its end and return its id."""
        prompt = [{"type": "text", "text": text, "text_elements": []}]
        turn: str = self.request("turn/start", threadId=thread, input=prompt, **settings)["turn"]["id"]
        self._wait(lambda message: message.get("method") == "turn/completed")
        return turn

    def turns(self, thread: str) -> list[dict[str, Any]]:
        """Return the turns with their items as clients see them, oldest first."""
        listed = self.request("thread/turns/list", threadId=thread, itemsView="full", sortDirection="asc")
        turns: list[dict[str, Any]] = listed["data"]
        return turns

    def _send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._messages.put(json.loads(line))

    def _wait(self, wanted: Any) -> dict[str, Any]:
        while True:
            message = self._messages.get(timeout=60)
            if wanted(message):
                return message
