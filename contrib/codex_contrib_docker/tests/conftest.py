"""An engine that stands in for a real one, and folders to try it with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_contrib_docker.sandbox import DockerSandbox
from codex_contrib_docker.settings import DockerSettings

STAND_IN = Path(__file__).with_name("stand_in.py")


class StandIn:
    """The stand-in's program and state."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "docker"
        self.state = folder / "state"
        for name in ("images", "containers", "commands"):
            (self.state / name).mkdir(parents=True)
        (self.state / "images" / "work").touch()
        self.program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {STAND_IN} "$@"\n')
        self.program.chmod(0o755)

    def break_(self, how: str) -> None:
        (self.state / "fault").write_text(how)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.state / "log").read_text().splitlines()]

    @property
    def containers(self) -> list[str]:
        return sorted(os.listdir(self.state / "containers"))

    def sandbox(self, **settings: object) -> DockerSandbox:
        values = {"image": "work", "engine": str(self.program), **settings}
        return DockerSandbox(DockerSettings(**values))  # type: ignore[arg-type]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    made = StandIn(tmp_path / "engine")
    monkeypatch.setenv("STAND_IN", str(made.state))
    yield made
    assert made.containers == []


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    return folder
