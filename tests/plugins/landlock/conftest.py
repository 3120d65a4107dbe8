"""Runs scripts in a real sandbox: as this user or as an ordinary one, with namespaces and without."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # an ordinary user may not be able to read it later
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from codex_framework.commands.access import file_access
from codex_framework.contract.permissions.file_access import FileAccess, PathRule
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.testing import run_confined
from codex_plugin_landlock.sandbox import LandlockSandbox

ORDINARY_UID = 61234 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""One for each worker: some limits count the processes of a user."""

PYTHON = "/usr/bin/python3"
MODES = [(level, user) for level in ("namespaces", "landlock") for user in ("root", "ordinary")]


def reason_to_skip(level: str, user: str) -> str | None:
    """Why a mode cannot be tried on this machine."""
    report = LandlockSandbox(level).probe()
    if not report.available:
        return f"no {level} sandbox here: {report.reason}"
    if user == "ordinary" and os.geteuid() != 0:
        return None if level else "unreachable"
    if user == "root" and os.geteuid() != 0:
        return "needs root"
    if user == "ordinary" and not os.access(PYTHON, os.X_OK):
        return f"needs {PYTHON}, which an ordinary user can run"
    return None


@attrs.frozen
class Ended:
    exit_code: int
    output: str


@attrs.frozen(kw_only=True)
class Place:
    """Folders on a file system that is not /tmp: what may be written, and what may not."""

    base: Path
    work: Path
    outside: Path

    def access(self, *, network: bool = False, unreadable: tuple[Path, ...] = ()) -> FileAccess:
        policy = WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True, network_access=network)
        access = file_access(permissions_of(policy), self.work, {})
        denied = (PathRule(path, AccessMode.DENY) for path in unreadable)
        return access.evolve(rules=tuple(sorted((*access.rules, *denied), key=lambda rule: rule.path)))


def make_place(uid: int) -> Place:
    base = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="confined-"))
    place = Place(base=base, work=base / "work", outside=base / "outside")
    for folder in (place.work / ".git", place.outside / "folder"):
        folder.mkdir(parents=True)
    (place.work / ".git" / "config").write_text("kept\n")
    (place.work / "file").write_text("file\n")
    (place.outside / "victim").write_text("kept\n")
    for path in (base, *base.rglob("*")):
        os.chown(path, uid, -1)
    return place


@pytest.fixture
def place() -> Iterator[Place]:
    made = make_place(os.geteuid())
    yield made
    shutil.rmtree(made.base)


def as_user(user: str, work: Callable[[], Any]) -> Any:
    """Call ``work`` in a forked child of that user; its result comes back as JSON."""
    if user == "root" or os.geteuid() != 0:
        return work()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID)
            os.setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID)
            answer = {"result": work()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(writer, "w") as file:
            json.dump(answer, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer = json.load(file)
    os.waitpid(child, 0)
    assert "error" not in answer, answer["error"]
    return answer["result"]


def run_all(
    level: str | None,
    user: str,
    access: FileAccess,
    cwd: Path,
    commands: dict[str, tuple[str, ...]],
    *,
    stdin: str = os.devnull,
    env: dict[str, str] | None = None,
) -> dict[str, Ended]:
    """Run commands one after another in one sandbox; by name, what each gave."""
    whole = {"PATH": os.defpath + ":/usr/local/bin", "HOME": str(cwd), "LANG": "C.UTF-8", **(env or {})}

    async def run() -> dict[str, tuple[int, str]]:
        sandbox = LandlockSandbox(level, python=PYTHON if user == "ordinary" else sys.executable)
        ended = {}
        try:
            confinement = sandbox.confine(access, cwd)
            for name, argv in commands.items():
                ended[name] = await run_confined(
                    confinement, argv, cwd, env=whole | dict(confinement.env), stdin=stdin, within_s=120
                )
            assert sandbox.level == (level or sandbox.level), sandbox.probe().reason
        finally:
            await sandbox.aclose()
        return ended

    answer = as_user(user, lambda: asyncio.run(run()))
    return {name: Ended(*ended) for name, ended in answer.items()}


@pytest.fixture(scope="session")
def harness() -> Any:
    """What the tests share."""
    names = ("run_all", "make_place", "reason_to_skip", "as_user", "ORDINARY_UID", "PYTHON", "Place")
    return SimpleNamespace(**{name: globals()[name] for name in names})


@pytest.fixture
def confined(place: Place) -> Callable[..., Ended]:
    """``confined("script")``: run a shell script in the strongest sandbox, in ``place.work``."""

    def run(script: str, *, level: str | None = None, access: FileAccess | None = None, tty: bool = False) -> Ended:
        return run_all(level, "root", access or place.access(), place.work, {"it": ("bash", "-c", script)})["it"]

    return run
