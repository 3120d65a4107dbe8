"""The terminal: OSC 9 or the bell, on a real terminal only, and nothing that a text could smuggle in."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Notification
from codex_framework.testing import ResponsesServer, say
from codex_plugin_notify.terminal import sequence
from codex_plugin_notify.texts import line


def told(kind: str = "agent-turn-complete", message: str | None = None, text: str = "") -> Notification:
    return Notification(type=kind, thread_id="t", turn_id="u", cwd="/", last_assistant_message=message, text=text)


@pytest.mark.parametrize(
    ("environ", "method", "expected"),
    [
        ({"TERM": "xterm-256color"}, "auto", b"\a"),
        ({}, "auto", b"\a"),
        ({"TERM_PROGRAM": "WezTerm"}, "auto", b"\x1b]9;hi\a"),
        ({"TERM_PROGRAM": "ghostty"}, "auto", b"\x1b]9;hi\a"),
        ({"ITERM_SESSION_ID": "w0"}, "auto", b"\x1b]9;hi\a"),
        ({"TERM": "xterm-kitty"}, "auto", b"\x1b]9;hi\a"),
        ({"TERM": "xterm-kitty", "WT_SESSION": "1"}, "auto", b"\a"),
        ({"TERM_PROGRAM": "ghostty"}, "bel", b"\a"),
        ({"TERM": "dumb"}, "osc9", b"\x1b]9;hi\a"),
        # Measured with Codex 0.169 inside tmux:
        ({"TERM_PROGRAM": "ghostty", "TMUX": "/tmp/s,1,0"}, "auto", b"\x1bPtmux;\x1b\x1b]9;hi\a\x1b\\"),
        ({"TMUX": "/tmp/s,1,0"}, "osc9", b"\x1bPtmux;\x1b\x1b]9;hi\a\x1b\\"),
        ({"TMUX": "/tmp/s,1,0"}, "bel", b"\a"),
    ],
)
def test_what_is_written(environ: Mapping[str, str], method: str, expected: bytes):
    assert sequence("hi", method, environ) == expected


@pytest.mark.parametrize(
    ("notification", "expected"),
    [
        (told(message="All d\u00e4ne.\nSecond line"), "All d\u00e4ne. Second line"),
        (told(), "Agent turn complete"),
        (told(message=" \n "), "Agent turn complete"),
        (told("approval-requested", text="touch x"), "Approval requested: touch x"),
        (told("turn-failed", text="no\r\nserver"), "Turn failed: no server"),
        (told("budget-reached"), "Budget reached"),
        (told(message="a\x1b]0;title\x07b\x9b31mc\x00\u202ed\u2028e"), "a ]0;title b 31mc d e"),
        (told(message="x" * 300), "x" * 199 + "\N{HORIZONTAL ELLIPSIS}"),
        (told(message="\x1b" * 1_000_000), "Agent turn complete"),
    ],
)
def test_the_text_is_one_harmless_line(notification: Notification, expected: str):
    assert line(notification) == expected


class Terminal:
    """A pseudo-terminal, and what was written to it."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        modes = termios.tcgetattr(self.slave)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        self.written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._over = False

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if ready:
                try:
                    self.written += os.read(self.master, 65536)
                except OSError:
                    return
            elif getattr(self, "_over", False):
                return

    def close(self) -> bytes:
        self._over = True
        self._reader.join()
        for descriptor in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        return self.written


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def execute(responses_server: Any, codex_home: Path, workspace: Path) -> Any:
    """Run ``exec`` with some streams."""

    def run(config: str, *, env: Mapping[str, str] | None = None, message: str = "All done.", **streams: Any) -> int:
        server: ResponsesServer = responses_server([say(message)])
        (codex_home / "config.toml").write_text(
            f'model = "gpt-5.5"\nmodel_provider = "here"\n{config}\n'
            f'[model_providers.here]\nname = "here"\nbase_url = "{server.url}"\n'
        )
        argv = [sys.executable, "-P", "-m", "codex_framework", "exec", "--skip-git-repo-check", "hello"]
        whole = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin", "HOME": str(codex_home), **(env or {})}
        with subprocess.Popen(
            argv, env=whole, cwd=workspace, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **streams}
        ) as process:
            return process.wait(60)

    return run


GHOSTTY = {"TERM_PROGRAM": "ghostty", "TERM": "xterm-256color"}


def test_a_turn_is_shown_on_the_terminal_of_stderr(execute: Any, terminal: Terminal):
    assert execute("tui.notifications = true", env=GHOSTTY, stderr=terminal.slave) == 0
    assert b"\x1b]9;All done.\a" in terminal.close()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_terminal_of_a_program_is_that_of_either_stream(terminal: Terminal, stream: str):
    script = "import os; from codex_plugin_notify.terminal import _terminal, _write; _write(_terminal(), b'SHOWN')"
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=30, **{**streams, stream: terminal.slave})
    assert terminal.close() == b"SHOWN"


def test_the_bell_rings_on_other_terminals(execute: Any, terminal: Terminal):
    assert execute("tui.notifications = true", env={"TERM": "xterm"}, stderr=terminal.slave) == 0
    written = terminal.close()
    assert written.count(b"\a") == 1
    assert b"\x1b]9" not in written


@pytest.mark.parametrize(
    "config", ["", "tui.notifications = false", "tui.notifications = []", 'tui.notifications = ["approval-requested"]']
)
def test_nothing_is_shown_unless_it_is_asked_for(execute: Any, terminal: Terminal, config: str):
    assert execute(config, env=GHOSTTY, stderr=terminal.slave) == 0
    written = terminal.close()
    assert b"\a" not in written
    assert b"\x1b]9" not in written


def test_files_and_pipes_get_nothing(execute: Any, tmp_path: Path):
    out, errors = tmp_path / "out", tmp_path / "errors"
    with out.open("wb") as stdout, errors.open("wb") as stderr:
        assert execute("tui.notifications = true", env=GHOSTTY, stdout=stdout, stderr=stderr) == 0
    assert b"\x1b]9" not in out.read_bytes() + errors.read_bytes()
    assert b"\a" not in out.read_bytes() + errors.read_bytes()


def test_a_short_turn_can_be_left_out(execute: Any, terminal: Terminal):
    config = "tui.notifications = true\n[framework.plugins.notify.terminal]\nmin_turn_s = 1000.0"
    assert execute(config, env=GHOSTTY, stderr=terminal.slave) == 0
    assert b"\x1b]9" not in terminal.close()


@pytest.mark.parametrize(
    ("config", "flags", "shown"),
    [
        ("", "attached,focused,UTF-8", False),
        ('tui.notification_condition = "unfocused"', "attached,focused", False),
        ('tui.notification_condition = "always"', "attached,focused", True),
        ("", "attached,UTF-8", True),
        ("", "", True),
    ],
)
def test_a_terminal_that_the_user_looks_at_is_left_alone(
    execute: Any, terminal: Terminal, tmp_path: Path, config: str, flags: str, shown: bool
):
    """A program in the place of tmux says what tmux says (test_focus.py)."""
    tmux = tmp_path / "tmux"
    tmux.write_text(f"#!/bin/sh\necho {os.ttyname(terminal.slave)} 1 1 1 1 {flags}\n")
    tmux.chmod(0o755)
    env = {**GHOSTTY, "PATH": f"{tmp_path}:/usr/bin:/bin", "TMUX": "/tmp/s,1,0", "TMUX_PANE": "%0"}
    assert execute(f"tui.notifications = true\n{config}", env=env, stderr=terminal.slave) == 0
    assert (b"\x1bPtmux;\x1b\x1b]9;All done.\a\x1b\\" in terminal.close()) == shown


def test_a_terminal_that_takes_nothing_delays_nothing(monkeypatch: pytest.MonkeyPatch):
    """Nobody reads the master's side until its buffer is full, as with Ctrl-S."""
    from codex_plugin_notify import terminal as module
    from codex_plugin_notify.component import NotifyComponent, Reports
    from codex_plugin_notify.filtering import Filter

    master, slave = pty.openpty()
    try:
        monkeypatch.setattr(module, "_terminal", lambda: os.ttyname(slave))
        reports = Reports(NotifyComponent())
        notifier = module.TerminalNotifier("osc9", Filter(), {}, reports)
        for _ in range(2000):
            notifier.notify(told(message="x" * 190))
        notifier.flush()
    finally:
        os.close(master)
        os.close(slave)


def test_a_job_in_the_background_is_not_stopped():
    """With ``stty tostop``, writing to the terminal stops a job in the background, unless it asks not to be."""
    write = "import os; from codex_plugin_notify.terminal import _write; _write(os.ttyname(0), b'SHOWN')"
    # A shell takes stdin of a job in the background away, so it is passed on.
    shell = 'stty tostop -opost -echo; set -m; exec 3<&0; "$0" -P -c "$1" <&3 & wait $!; echo "status $?."; read line'
    pid, master = pty.fork()
    if pid == 0:  # the leader of a new session, whose terminal is the pty
        os.execv("/bin/sh", ["sh", "-c", shell, sys.executable, write])
    shown = b""
    patience = time.monotonic() + 60
    try:
        while b"status" not in shown and time.monotonic() < patience:
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65536)
    finally:
        os.write(master, b"\n")
        os.close(master)  # whatever still runs there gets SIGHUP and SIGCONT
        os.waitpid(pid, 0)
    assert b"SHOWN" in shown
    assert b"status 0." in shown
