"""A headless browser, driven over pipes; traces and pages made from them."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_trace.page.data import page_data
from codex_plugin_trace.page.document import document
from codex_plugin_trace.reading.sources import read_timeline

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next(filter(None, map(shutil.which, BROWSERS)), None)


_FLAGS = """
--headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions
--disable-background-networking --disable-component-update --disable-sync --window-size=1300,900
"""


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends have larger numbers than those that the browser reads and writes."""
    ends = os.pipe()
    found = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return found[0], found[1]


class Browser:
    """A headless Chromium, spoken to in its debugging protocol over two pipes.

    Attributes:
        asked: The URLs of all requests of the page.
        said: What the page has logged, and errors of its scripts.
    """

    def __init__(self, folder: Path) -> None:
        to_read, self._to = _pipe()
        self._from, to_write = _pipe()
        assert PROGRAM is not None
        arguments = [PROGRAM, *_FLAGS.split(), f"--user-data-dir={folder}", "about:blank"]
        actions = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        pipes = [(os.POSIX_SPAWN_DUP2, to_read, 3), (os.POSIX_SPAWN_DUP2, to_write, 4)]
        env = {**os.environ, "HOME": str(folder)}
        self._pid = os.posix_spawn(PROGRAM, arguments, env, file_actions=[*actions, *pipes], setpgroup=0)
        os.close(to_read)
        os.close(to_write)
        self._numbers = itertools.count(1)
        self._unread = b""
        self._session: str | None = None
        self.asked: list[str] = []
        self.said: list[str] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def show(self, path: Path) -> None:
        """Open a page and wait until it has loaded."""
        self.asked.clear()
        self.said.clear()
        self._call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """Run an expression in the page and return its value."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait for an expression to be true."""
        end = time.monotonic() + 30
        while not (value := self.run(script)):
            assert time.monotonic() < end, script
            time.sleep(0.02)
        return value

    def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type text."""
        self._call("Input.insertText", text=text)

    def prefer(self, scheme: str) -> None:
        """Prefer a light or dark colour scheme."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def close(self) -> None:
        """End the browser, and kill what is left of it after a moment."""
        self._session = None
        self._call("Browser.close")
        end = time.monotonic() + 60
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0 and time.monotonic() < end:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.close(self._to)
        os.close(self._from)

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.said.append(json.dumps(parameters))
            case "Page.javascriptDialogOpening":
                self.said.append("dialog")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert select.select([self._from], [], [], 60)[0], "the browser does not answer"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("no Chromium is on the PATH")
    folder = tempfile.mkdtemp(prefix="browser-")
    made = Browser(Path(folder))
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write records as a file of JSON lines."""

    def write(*records: Any, name: str = "trace.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
        return path

    return write


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[[Path], Path]:
    """Make the page of a trace or session."""

    def make(path: Path) -> Path:
        page = tmp_path / f"{path.stem}.html"
        page.write_bytes(document(page_data(read_timeline(path, tmp_path))).encode())
        return page

    return make


HEAD = {"type": "trace", "version": 1, "by": "codex-framework 0", "time": 1000.0}


def span(name: str, start: float, took: float, *, content: Any = None, **attributes: Any) -> dict[str, Any]:
    """Return the record of a span of the turn ``turn-1``."""
    number = f"{name}-{start}"
    record = {"type": "span", "name": name, "time": start, "duration": took, "thread": "thread-1", "turn": "turn-1"}
    return {**record, "span": number, "attributes": attributes, "content": content or {}}


def event(kind: str, time: float = 1000.0, turn: str = "turn-1", **fields: Any) -> dict[str, Any]:
    """Return the record of an event."""
    return {"type": "event", "time": time, "thread": "thread-1", "turn": turn, "event": {"type": kind, **fields}}
