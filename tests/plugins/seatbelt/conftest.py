"""The language of profiles as a module of its own, and a stand-in for ``sandbox-exec``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework import ChildProcess, Launch
from codex_plugin_landlock.sandbox import LandlockSandbox

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)  # the stand-in, a program of its own, imports the same module

LINKS = {"/etc": "/private/etc", "/tmp": "/private/tmp", "/var": "/private/var"}


def mac_path(path: str) -> str:
    """The links that every Mac has at its root."""
    for link, target in LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path[len(link) :]
    return path


@pytest.fixture
def as_on_a_mac() -> Callable[[str], str]:
    return mac_path


def make_program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def program() -> Callable[[Path, str], str]:
    return make_program


@attrs.define
class StandIn:
    """A program in place of ``sandbox-exec``.

    Attributes:
        path: Where it is.
        record: Where it notes its command lines.
    """

    path: str
    record: Path

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.record.read_text().splitlines()] if self.record.exists() else []


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    """One that understands profiles, and confines by Landlock what it runs."""
    if not LandlockSandbox().probe().available:
        pytest.skip("the stand-in confines by the landlock sandbox, which does not work here")
    record = tmp_path / "calls"
    script = f"import sys; sys.path.append({HERE!r}); import seatbelt_standin; seatbelt_standin.main({str(record)!r})"
    text = f"#!{sys.executable}\n{script}\n"
    return StandIn(make_program(tmp_path / "sandbox-exec", text), record)


@pytest.fixture
def loose(tmp_path: Path) -> str:
    """One that confines nothing, and becomes the command as the real one does: for what happens around it."""
    return make_program(tmp_path / "loose", '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift\nexec "$@"\n')


class Runner:
    """Runs commands of a confinement, each to its end."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    async def start(self, confinement: Any, *argv: str, stdout: int, **fields: Any) -> ChildProcess:
        env = {"PATH": os.environ["PATH"], **confinement.env}
        with Path(os.devnull).open() as null:
            launch = Launch(argv=argv, cwd=str(self.cwd), env=env, stdin=null.fileno(), stdout=stdout, stderr=stdout)
            return await confinement.start(launch.evolve(**fields))  # type: ignore[no-any-return]

    async def run(self, confinement: Any, *argv: str, **fields: Any) -> tuple[int, str]:
        with tempfile.TemporaryFile() as output:
            child = await self.start(confinement, *argv, stdout=output.fileno(), **fields)
            status = await child.wait()
            output.seek(0)
            return status, output.read().decode()


@pytest.fixture
def runner(workspace: Path) -> Runner:
    return Runner(workspace)
