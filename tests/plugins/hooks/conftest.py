"""Hooks in real turns: commands of the user's, written to files and run by a real shell."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import say

RECORD = """
import json, os, sys
data = json.load(sys.stdin)
with open({log!r}, "a") as log:
    log.write(json.dumps(data) + "\\n")
"""

TRUSTED = "framework.plugins.hooks.bypass_trust=true"


class Hooks:
    """The hooks of one test.

    Attributes:
        home: ``$CODEX_HOME``.
    """

    def __init__(self, home: Path, workspace: Path, run: Callable[..., Any]) -> None:
        self.home = home
        self.workspace = workspace
        self._run = run
        self._log = home / "log.jsonl"
        self._made = 0

    def python(self, code: str = "") -> str:
        """Return a command that records its input, and then runs Python code with it in ``data``."""
        self._made += 1
        file = self.home / f"hook{self._made}.py"
        file.write_text(RECORD.format(log=str(self._log)) + code)
        return f"{sys.executable} -S {file}"

    def says(self, answer: Any) -> str:
        """Return a command that records its input and prints an answer as JSON."""
        return self.python(f"print({json.dumps(json.dumps(answer))})")

    def write(self, events: Mapping[str, Any]) -> None:
        """Write ``hooks.json``. A command stands for a group of it alone."""
        whole = {event: [group(each) for each in groups] for event, groups in events.items()}
        (self.home / "hooks.json").write_text(json.dumps({"hooks": whole}))

    def turn(self, replies: Sequence[Any] = (say("Done."),), prompt: str = "hello", **more: Any) -> Any:
        """Run one turn with all hooks trusted."""
        return self._run(prompt, list(replies), config=[*more.pop("config", ()), TRUSTED], **more)

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """What the hooks have read."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def seen(self) -> list[str]:
        """The events of the hooks that have run."""
        return [each["hook_event_name"] for each in self.inputs]


def group(given: Any, **more: Any) -> Any:
    """Return a group of one command, unless it is a group already."""
    if not isinstance(given, str):
        return given
    matcher = {"matcher": more.pop("matcher")} if "matcher" in more else {}
    return {**matcher, "hooks": [{"type": "command", "command": given, **more}]}


def prints(answer: Any) -> str:
    """Return a command that prints text, or an answer as JSON."""
    return f"printf %s {shlex.quote(answer if isinstance(answer, str) else json.dumps(answer))}"


def specific(event: str, **fields: Any) -> dict[str, Any]:
    """Return an answer with fields of its event."""
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


@pytest.fixture
def hooks(codex_home: Path, workspace: Path, run_turn: Any) -> Hooks:
    """Hooks in the user's ``hooks.json``."""
    return Hooks(codex_home, workspace, run_turn)


def runs(turn: Any) -> list[Any]:
    """Return the completed runs of a turn."""
    return [event.run for event in turn.result.events if event.type == "hook_completed"]


def entries(turn: Any) -> list[tuple[str, str]]:
    """Return what clients are told about the runs of a turn."""
    return [(entry.kind, entry.text) for run in runs(turn) for entry in run.entries]


def warned(turn: Any) -> list[str]:
    """Return the warnings of a turn."""
    texts = [event.message for event in turn.result.events if event.type == "warning"]
    return [text for text in texts if not text.startswith("Model metadata")]


def messages(turn: Any) -> list[tuple[str, str]]:
    """Return the messages of a conversation, without those that the framework adds at its start."""
    found = [(item.role, item.content[0].text) for item in turn.history if item.type == "message"]
    return [(role, text) for role, text in found if not text.startswith("<")]
