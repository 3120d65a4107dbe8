"""Commands start with default signals and an empty mask, whatever the kernel was started with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.commands.process.spawn import Unconfined
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

PROGRAM = """
import asyncio, json, os, signal, sys, threading
from pathlib import Path
from codex_framework.commands.process.running import start_command
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.errors import CommandFailed

async def main(kind, tty):
    if kind == "unconfined":
        confinement, close = Unconfined(), None
    else:
        from codex_plugin_landlock.sandbox import LandlockSandbox
        sandbox = LandlockSandbox(kind)
        confinement, close = sandbox.confine(FileAccess(), Path("/")), sandbox.aclose
    env = {"PATH": os.defpath, "A": "\N{GREEK SMALL LETTER ALPHA}"}
    argv = ["sh", "-c", "grep -E '^Sig(Ign|Blk)' /proc/self/status; pwd; echo $A; exit 7"]
    try:
        ended = await (await start_command(confinement, argv=argv, cwd="/usr", env=env, tty=tty)).wait()
        try:
            await start_command(confinement, argv=["no-such-program"], cwd="/", env=env)
            missing = ""
        except CommandFailed as error:
            missing = str(error)
    finally:
        if close is not None:
            await close()
    return ended.exit_code, ended.output.split(), missing

def ignored():
    return sorted(int(n) for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN)

kind, tty, thread = json.loads(sys.argv[1])
before, found = ignored(), []
run = lambda: found.append(asyncio.run(main(kind, tty)))
if thread:
    worker = threading.Thread(target=run)
    worker.start()
    worker.join()
else:
    run()
print(json.dumps([found[0], before, ignored()]))
"""

STARTER = """
import os, signal, sys
for number in eval(sys.argv[1]):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, eval(sys.argv[2]))
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""

ROOT = Path(__file__).parents[3]

LEFT_OUT = "{signal.SIGKILL, signal.SIGSTOP}"
MANY = "[signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD]"


@pytest.mark.parametrize("kind", ["unconfined", "namespaces", "landlock"])
@pytest.mark.parametrize(
    ("ignored", "blocked", "tty", "thread"),
    [
        (MANY, "[]", False, False),
        (MANY, "[signal.SIGINT, signal.SIGTERM, signal.SIGCHLD]", False, False),
        ("[]", "[signal.SIGUSR2]", True, False),
        (MANY.replace(", signal.SIGCHLD", ""), "[]", False, True),
    ],
    ids=["ignored", "blocked", "on a terminal", "in a thread"],
)
def test_commands_start_with_default_signals(kind, ignored, blocked, tty, thread):
    if kind != "unconfined" and not LandlockSandbox(kind).probe().available:
        pytest.skip(f"no {kind} sandbox here")
    given = json.dumps([kind, tty, thread])
    argv = [sys.executable, "-c", STARTER, ignored, blocked, "-c", PROGRAM, given]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (code, words, missing), before, after = json.loads(done.stdout)
    blocked_label, blocked_mask, ignored_label, ignored_mask, *rest = words
    assert (code, blocked_label, ignored_label) == (7, "SigBlk:", "SigIgn:")
    assert int(blocked_mask, 16) == 0
    # glibc ignores its own signals, 32 and 33, in what posix_spawn starts, as the subprocess module of Python 3.13 does.
    assert int(ignored_mask, 16) & ~(3 << 31) == 0
    assert rest == ["/usr", "\N{GREEK SMALL LETTER ALPHA}"]
    assert missing.startswith("No such file or directory")
    chld = 17
    assert [number for number in after if number != chld] == [number for number in before if number != chld]


def test_nothing_is_wrapped_where_signals_are_as_usual(monkeypatch):
    """An ordinary start costs a look at the dispositions, and no further process."""
    import asyncio

    import codex_framework.commands.process.spawn as spawn
    from codex_framework.commands.process.running import start_command

    monkeypatch.setattr(spawn, "with_default_signals", None)

    async def run():
        return (
            await (await start_command(Unconfined(), argv=["true"], cwd="/", env={"PATH": "/bin:/usr/bin"})).wait()
        ).exit_code

    assert asyncio.run(run()) == 0


@pytest.mark.slow
def test_a_session_of_tests_that_ignores_interrupts_ends():
    """Such a session is started by ``nohup``, or with ``&`` in a script. A command that handles SIGINT must still get it."""
    ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    tests = Path(__file__).with_name("test_running.py")
    argv = [
        *ignoring,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        str(tests),
        "-k",
        "interrupt",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
