"""Attacks that each try one way out, run for real: what the sandbox's report says is exactly what holds.

The attacks stand in ``attacks/*.py``, one function each; a function that comes to its end without an ``OSError`` has escaped.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "attacks"
PRELUDE = (FOLDER / "prelude.py").read_text()


def functions() -> dict[str, str]:
    found = {}
    for name in ("files.py", "kernel.py"):
        source = (FOLDER / name).read_text()
        for node in ast.parse(source).body:
            assert isinstance(node, ast.FunctionDef)
            found[node.name] = ast.get_source_segment(source, node) or ""
    return found


ATTACKS = functions()

REDUCED_GAPS = {
    # no read-only mounts
    "chmod_outside",
    "chmod_by_descriptor",
    "chown_outside",
    "utime_outside",
    "xattr_outside",
    "inode_flags",
    "git_chmod",
    "device_times",
    # names that do not exist yet
    # no process namespace
    "see_victim",
    # no /dev and IPC namespace of its own
    "shared_memory_file",
    "other_terminal",
}
"""What gets through without namespaces; the report of that level says so."""


@pytest.fixture(scope="module")
def key() -> str:
    return "k" + uuid.uuid4().hex[:12]


@contextlib.contextmanager
def surroundings(outside: Path, key: str, uid: int) -> Iterator[tuple[int, int, str]]:
    """What there is to attack: a process, a TCP server, unix sockets, shared memory, a terminal."""
    tcp = socket.create_server(("127.0.0.1", 0))
    stream, datagram, abstract = (
        socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_STREAM)
    )
    victim = subprocess.Popen(["sleep", "100"], env={"SECRET": "1"}, user=uid, start_new_session=True)
    ours, theirs = os.openpty()
    shared = Path("/dev/shm", key)
    shared.write_text("kept")
    try:
        stream.bind(str(outside / "server"))
        datagram.bind(str(outside / "datagrams"))
        abstract.bind("\0" + key)
        for path in (outside / "server", outside / "datagrams", shared, Path(os.ttyname(theirs))):
            os.chown(path, uid, -1)
        for server in (stream, abstract):
            server.listen()
        yield victim.pid, tcp.getsockname()[1], Path(os.ttyname(theirs)).name
    finally:
        victim.kill()
        victim.wait()
        shared.unlink(missing_ok=True)
        for server in (tcp, stream, datagram, abstract):
            server.close()
        os.close(ours)
        os.close(theirs)


def attack_all(harness, level: str, user: str, key: str) -> tuple[dict[str, str], bool]:
    reason = harness.reason_to_skip(level, user)
    if reason:
        pytest.skip(reason)
    uid = harness.ORDINARY_UID if user == "ordinary" and os.geteuid() == 0 else os.geteuid()
    place = harness.make_place(uid)
    script = "\n\n".join([PRELUDE, *ATTACKS.values(), (FOLDER / "runner.py").read_text()])
    table = ", ".join(f"{name!r}: {name}" for name in ATTACKS)
    script += f"\n\nrun_attacks({{{table}}})\n"
    try:
        with surroundings(place.outside, key, uid) as (victim, port, terminal):
            before = snapshot(place.outside)
            argv = (
                harness.PYTHON,
                "-I",
                "-S",
                "-c",
                script,
                str(place.work),
                str(place.outside),
                str(victim),
                str(port),
                key,
            )
            ended = harness.run_all(
                level,
                user,
                place.access(),
                place.work,
                {"attacks": argv},
                stdin=str(place.outside / "victim"),
                env={"TERMINAL": terminal},
            )["attacks"]
            time.sleep(0.8)
            assert not (place.work / "late").exists()
            changed = before != snapshot(place.outside)
        results = dict(
            line.split() for line in ended.output.splitlines() if line.endswith((" escaped", " refused", " broken"))
        )
        assert ended.exit_code == 0, ended.output
        assert set(results) == set(ATTACKS)
        assert [line for line in ended.output.splitlines() if line.endswith(" broken") or ": " in line] == []
        return results, changed
    finally:
        shutil.rmtree(place.base)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (content, status.st_mode, status.st_uid, status.st_mtime_ns, os.listxattr(path))
    return found


@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_with_namespaces_every_attack_is_stopped(harness, user, key):
    results, changed = attack_all(harness, "namespaces", user, key)
    assert {name for name, result in results.items() if result == "escaped"} == set()
    assert not changed


@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_without_namespaces_only_the_documented_gaps_are_open(harness, user, key):
    results, _ = attack_all(harness, "landlock", user, key)
    assert {name for name, result in results.items() if result == "escaped"} <= REDUCED_GAPS
