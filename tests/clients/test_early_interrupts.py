"""^C while the command is still importing ends it with 130 and without a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            {action}

class InCallback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(100))

class InSetName:
    def __set_name__(self, *_):
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(100))

signal.signal(signal.SIGINT, signal.{handler})
sys.meta_path.insert(0, Interrupt())
from codex_framework.cli.entry import run
sys.argv = ["codex-framework", "--help"]
sys.exit(run())
"""
KILL = "os.kill(os.getpid(), signal.SIGINT)"


def run(module: str, action: str = KILL, handler: str = "default_int_handler") -> subprocess.CompletedProcess[str]:
    code = INTERRUPTED.format(module=module, action=action, handler=handler)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("module", "action"),
    [
        ("codex_framework.cli.main", KILL),
        ("gc", KILL),
        ("codex_framework.contract.errors", KILL),
        ("click", KILL),
        ("click", "InCallback()"),
        ("click", "type('', (), {'member': InSetName()})"),
    ],
)
def test_an_interrupt_of_an_import_ends_the_command(module: str, action: str) -> None:
    ran = run(module, action)
    assert (ran.returncode, ran.stderr) == (130, "")


def test_an_ignored_interrupt_stays_ignored() -> None:
    ran = run("codex_framework.cli.main", handler="SIG_IGN")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Usage: ")
