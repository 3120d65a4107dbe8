"""The focus: known inside tmux, with a client whose terminal tells it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codex_plugin_notify.focus import is_watched

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

PATH = os.environ.get("PATH", os.defpath)


class Tmux:
    """A server of tmux with one session, and a client whose terminal can get and lose the focus."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "s")
        self._environ = {"PATH": PATH, "TERM": "xterm-256color", "HOME": str(folder), "LANG": "C.UTF-8"}
        self._over = threading.Event()
        self._pid = 0
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", "x", "cat")
        self._run("set", "-g", "focus-events", "on")
        self.device = self._run("display-message", "-p", "-t", "%0", "#{pane_tty}")
        self.environ = {**self._environ, "TMUX": f"{self._socket},1,0", "TMUX_PANE": "%0"}

    def _run(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, *words]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, check=True, timeout=30)
        return done.stdout.strip()

    __call__ = _run

    def attach(self) -> None:
        """Attach a client, and wait until tmux has it."""
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            os.execvpe("tmux", ["tmux", "-S", self._socket, "attach", "-t", "x"], self._environ)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.until(lambda: self._run("display-message", "-p", "-t", "%0", "#{session_attached}") == "1")

    def focus(self, *, gained: bool) -> None:
        os.write(self._master, b"\x1b[I" if gained else b"\x1b[O")

    def until(self, true: Callable[[], bool]) -> None:
        patience = time.monotonic() + 30
        while not true():
            assert time.monotonic() < patience
            time.sleep(0.02)

    def _read(self) -> None:
        while not self._over.is_set():
            ready, _, _ = select.select([self._master], [], [], 0.05)
            try:
                if ready:
                    os.read(self._master, 65536)
            except OSError:
                return

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], env=self._environ, capture_output=True, check=False)
        if self._pid:
            os.waitpid(self._pid, 0)
            self._over.set()
            self._reader.join()
            os.close(self._master)

    def watched(self) -> bool:
        return is_watched(self.device, self.environ)


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    made = Tmux(tmp_path_factory.mktemp("t"))
    try:
        yield made
    finally:
        made.close()


def test_a_pane_is_watched_while_its_terminal_has_the_focus(tmux: Tmux):
    assert not tmux.watched(), "nobody is attached"
    tmux.attach()
    tmux.until(tmux.watched)
    tmux.focus(gained=False)
    tmux.until(lambda: not tmux.watched())
    tmux.focus(gained=True)
    tmux.until(tmux.watched)


def test_a_pane_that_is_not_visible_is_not_watched(tmux: Tmux):
    tmux.attach()
    tmux.until(tmux.watched)
    tmux("split-window", "cat")
    assert not tmux.watched(), "another pane is active"
    tmux("kill-pane", "-t", "%1")
    assert tmux.watched()
    tmux("new-window", "cat")
    assert not tmux.watched(), "another window is active"


def test_what_tmux_does_not_know_counts_as_not_watched(tmux: Tmux):
    tmux.attach()
    tmux.until(tmux.watched)
    assert not is_watched("/dev/pts/987", tmux.environ), "the terminal is another one"
    for name in ("TMUX", "TMUX_PANE"):
        assert not is_watched(tmux.device, {**tmux.environ, name: ""})
    assert not is_watched(tmux.device, {**tmux.environ, "PATH": "relative:."})
    assert not is_watched(tmux.device, {**tmux.environ, "TMUX": "/no/such/socket,1,0"})
    assert not is_watched(tmux.device, {**tmux.environ, "TMUX_PANE": "%99"})
    tmux("set", "-g", "focus-events", "off")
    assert not tmux.watched()


@pytest.mark.thorough
def test_a_tmux_that_hangs_is_not_waited_for(tmp_path: Path):
    (tmp_path / "tmux").write_text("#!/bin/sh\nexec sleep 987\n")
    (tmp_path / "tmux").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{PATH}", "TMUX": "/s,1,0", "TMUX_PANE": "%0"}
    began = time.monotonic()
    assert not is_watched("/dev/pts/0", environ)
    assert time.monotonic() - began < 30
