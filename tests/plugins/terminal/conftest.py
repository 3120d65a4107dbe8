"""A person at a real terminal: the installed command in tmux, with a home, a repository and a loopback model server."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer

COMMAND = Path(sys.executable).with_name("codex-framework")
LIMIT_S = float(os.environ.get("TERMINAL_LIMIT_S", "60"))
"""How long a screen may take to appear. The machine may be busy."""


class Person:
    """Starts the command in a pane of tmux, presses keys, and looks at the screen."""

    def __init__(self, folder: Path, socket: str) -> None:
        self._folder = folder
        self._name = socket
        self._socket = socket
        self._starts = 0
        self._server: ResponsesServer | None = None
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        (self.work / ".git" / "objects").mkdir(parents=True)
        self.env: dict[str, str] = {}
        self.start_with = ""
        """Assignments of variables before the command, for those that tmux sets itself."""

    @property
    def server(self) -> ResponsesServer:
        assert self._server is not None
        return self._server

    def serve(self, *replies: Reply, more: str = "", trust: bool = True, repeat_last: bool = False) -> ResponsesServer:
        """Start a model server, and write the configuration for it."""
        self._server = ResponsesServer(replies, repeat_last=repeat_last).start()
        trusted = f'[projects."{self.work}"]\ntrust_level = "trusted"\n' if trust else ""
        (self.home / "config.toml").write_text(
            f'model = "gpt-5.5"\nmodel_provider = "loop"\n{more}\n[model_providers.loop]\nname = "Loopback"\n'
            f'base_url = "{self._server.url}"\nenv_key = "TEST_KEY"\nrequest_max_retries = 0\nstream_max_retries = 1\n{trusted}'
        )
        return self._server

    def start(self, *argv: str, columns: int = 80, rows: int = 24, after: str = "") -> None:
        """Start the command. ``after`` is run by the shell when it has ended."""
        self._starts += 1
        self._socket = f"{self._name}-{self._starts}"  # the former server may still be ending
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CODEX_", "OPENAI_", "TMUX"))}
        env = {**kept, "CODEX_HOME": str(self.home), "HOME": str(self._folder), "TEST_KEY": "sk-test", **self.env}
        command = shlex.join([str(COMMAND), *argv])
        ending = "echo status=$?; stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e -echo"
        script = f"cd {shlex.quote(str(self.work))}; {self.start_with} {command}; {ending}; {after} sleep 600"
        words = ["new-session", "-d", "-s", "p", "-x", str(columns), "-y", str(rows), "sh", "-c", script]
        subprocess.run(["tmux", "-L", self._socket, "-f", "/dev/null", *words], env=env, check=True)

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux."""
        self._tmux("send-keys", "-t", "p", *keys)

    def type(self, text: str) -> None:
        """Type text."""
        self._tmux("send-keys", "-t", "p", "-l", text)

    def paste(self, text: str) -> None:
        """Paste text as a terminal does."""
        subprocess.run(["tmux", "-L", self._socket, "load-buffer", "-"], input=text.encode(), check=True)
        self._tmux("paste-buffer", "-p", "-r", "-t", "p")

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        self._tmux("resize-window", "-t", "p", "-x", str(columns), "-y", str(rows))

    def screen(self, *, history: bool = False, colours: bool = False) -> str:
        """Return what is displayed."""
        return self._tmux(
            "capture-pane", "-p", "-t", "p", *(["-S", "-"] if history else []), *(["-e"] if colours else [])
        )

    def sees(self, *patterns: str, history: bool = False) -> str:
        """Wait until the screen matches all patterns, and return it."""

        def find(screen: str) -> bool:
            return all(re.search(pattern, screen, re.MULTILINE) for pattern in patterns)

        return self.waits(find, f"{patterns}", history=history)

    def waits(self, find: Callable[[str], bool], what: str, *, history: bool = False) -> str:
        """Wait until a function is true of the screen, and return the screen."""
        end = time.monotonic() + LIMIT_S
        while True:
            screen = self.screen(history=history)
            if find(screen):
                return screen
            assert time.monotonic() < end, f"never seen: {what}\n{screen}"
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """The process of the command."""
        shell = self._tmux("display-message", "-p", "-t", "p", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout
        return int(found.split()[0])

    def end(self) -> None:
        """Close the terminal."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True)

    def close(self) -> None:
        """End everything."""
        self.end()
        if self._server is not None:
            self._server.stop()

    def _tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-L", self._socket, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def person(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Person]:
    """A person at a terminal."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    person = Person(tmp_path, f"codex-framework-{os.getpid()}-{abs(hash(request.node.nodeid))}")
    yield person
    person.close()


__all__: Sequence[str] = ("Person",)
