"""``python -m codex_framework`` is the command, run by the interpreter that is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from codex_framework.testing.replies import say


def as_module(cli, *argv):
    command = [sys.executable, "-P", "-m", "codex_framework", *argv]
    return subprocess.run(command, cwd=cli.work, env=cli.env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("argv", [("--version",), ("exec", "--help"), ("plugins", "show", "nope"), ("--nope",)])
def test_it_prints_and_ends_as_the_command_does(cli, argv):
    module, command = as_module(cli, *argv), cli.run(*argv)
    assert (module.returncode, module.stdout, module.stderr) == (command.status, command.out, command.err)


def test_it_runs_a_turn(cli):
    cli.serve(say("Hello."))
    done = as_module(cli, "exec", "Say hello.")
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr


def test_importing_it_runs_nothing(cli):
    code = "import sys, codex_framework.__main__ as module; print(module.__name__)"
    done = subprocess.run([sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "codex_framework.__main__\n", "")
