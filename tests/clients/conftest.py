"""The installed command, a home, a repository and a loopback server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer
from tests.forked import RunProgram

COMMAND = Path(sys.executable).with_name("codex-framework")


@attrs.frozen
class Ran:
    """What came of a run."""

    status: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """Standard error up to the address of the page that explains the error, which must be its last line."""
        text, _, address = self.err.rstrip("\n").rpartition("\n")
        assert re.fullmatch(r"See \S+/errors\.md#[a-z-]+", address), self.err
        return f"{text}\n"

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def items(self, kind: str) -> list[dict[str, Any]]:
        """Completed items of a kind, without their ids."""
        return [
            {key: value for key, value in event["item"].items() if key != "id"}
            for event in self.events
            if event["type"] == "item.completed" and event["item"]["type"] == kind
        ]


class Cli:
    """Runs the command in a small repository."""

    def __init__(self, folder: Path, run_program: RunProgram) -> None:
        self._run_program = run_program
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        (self.work / ".git" / "objects").mkdir(parents=True)
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("CODEX_", "OPENAI_"))},
            "CODEX_HOME": str(self.home),
            "HOME": str(folder),
            "NO_COLOR": "1",
            "TEST_KEY": "sk-test",
        }
        self.servers: list[ResponsesServer] = []

    def serve(self, *replies: Reply, repeat_last: bool = False, **table: Any) -> ResponsesServer:
        """Start a server and make it the home's provider."""
        server = ResponsesServer(replies, repeat_last=repeat_last).start()
        self.servers.append(server)
        self.configure(base_url=server.url, **table)
        return server

    def configure(self, model: str = "gpt-5.5", more: str = "", **table: Any) -> None:
        settings = {
            "name": "Loopback",
            "env_key": "TEST_KEY",
            "stream_max_retries": 1,
            "request_max_retries": 0,
            "stream_idle_timeout_ms": 5000,
            **table,
        }
        rows = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
        (self.home / "config.toml").write_text(
            f'model = "{model}"\nmodel_provider = "loopback"\n{more}\n[model_providers.loopback]\n{rows}\n'
        )

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(COMMAND), *argv],
            **{
                "cwd": self.work,
                "env": self.env,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **options,
            },
        )

    def run(self, *argv: str, stdin: bytes | None = None, timeout: float = 60, **options: Any) -> Ran:
        """Run to the end. Stdin is empty unless given. Options are those of Popen."""
        done = self._run_program(*argv, stdin=stdin, timeout=timeout, **{"cwd": self.work, "env": self.env, **options})
        return Ran(done.returncode, done.stdout, done.stderr)

    def run_installed(self, *argv: str, **options: Any) -> Ran:
        """Run the installed program to the end, in any case."""
        return self.run(*argv, fork=False, **options)

    def exec(self, *argv: str, **options: Any) -> Ran:
        return self.run("exec", *argv, **options)

    def json(self, *argv: str, **options: Any) -> Ran:
        return self.run("exec", "--json", *argv, **options)

    def rollouts(self) -> list[Path]:
        return sorted((self.home / "sessions").rglob("*.jsonl"))


@pytest.fixture
def cli(tmp_path: Path, run_program: RunProgram) -> Iterator[Cli]:
    made = Cli(tmp_path, run_program)
    yield made
    for server in made.servers:
        server.stop()


def texts(request: dict[str, Any], role: str = "user") -> Sequence[str]:
    """The texts of all messages of a role in a request's input."""
    return [
        part["text"]
        for item in request["input"]
        if item.get("type") == "message" and item["role"] == role
        for part in item["content"]
        if "text" in part
    ]


@pytest.fixture
def user_texts() -> Any:
    return texts
