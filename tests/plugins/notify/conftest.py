"""Turns with notifiers: a program that writes down how it was run, and a webhook on loopback."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework import Decision, ReviewDecision, tool
from codex_framework.testing import Reply, call, say

RECORDER = """#!{python} -I
import json, os, sys
me = os.getpid()
fds = {{number: os.readlink(f"/proc/{{me}}/fd/{{number}}") for number in (0, 1, 2)}} if os.path.isdir("/proc") else {{}}
about = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "fds": fds, "group": os.getpgid(0) == me, "home": os.environ.get("HOME")}}
about["session"] = os.getsid(0)
target = os.path.join({folder!r}, str(me))
with open(target + ".part", "w", encoding="utf-8", errors="surrogateescape") as file:
    json.dump(about, file)
os.rename(target + ".part", target + ".json")
"""


class Recorder:
    """A program that writes down its arguments and its circumstances.

    Attributes:
        path: Its file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"
        self._folder.mkdir()
        self.path = folder / "record"
        self.path.write_text(RECORDER.format(python=sys.executable, folder=str(self._folder)))
        self.path.chmod(0o755)

    def runs(self, count: int) -> list[dict[str, Any]]:
        """Wait until the program has run this often, and return what it wrote, in the order of starts."""
        found: list[Path] = []
        until = time.monotonic() + 30
        while len(found) < count and time.monotonic() < until:
            found = list(self._folder.glob("*.json"))
            time.sleep(0.01)
        runs = [json.loads(path.read_text("utf-8")) for path in found]
        return sorted(runs, key=lambda run: run["argv"])

    def told(self, count: int) -> list[dict[str, Any]]:
        """Return the notifications that the program got."""
        return [json.loads(run["argv"][-1]) for run in self.runs(count)]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


@attrs.define
class Posted:
    """One request to the webhook."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        whole: dict[str, Any] = json.loads(self.body)
        return whole


class Hook:
    """A webhook on loopback.

    Attributes:
        posted: The requests so far.
        answers: Called for each request, by its number: status, headers and body of the answer.
    """

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.answers: Callable[[int], tuple[int, dict[str, str], bytes]] = lambda number: (204, {}, b"")
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                hook.posted.append(Posted(self.path, headers, body))
                status, more, answer = hook.answers(len(hook.posted))
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/services/T0/canary"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    try:
        yield made
    finally:
        made.close()


@tool(needs_approval=True)
async def risky() -> str:
    """Do something for which a person has to be asked."""
    return "done"


APPROVED: Sequence[Reply] = (call("risky"), say("It is done."))
"""A turn in which a person is asked."""


@attrs.define
class Ran:
    """What came of turns.

    Attributes:
        results: Of each turn.
        said: What is said about notifiers, during the turns and at the end of the kernel.
        close_s: How long the kernel took to close, in seconds.
        problems: Of the plugin.
    """

    results: list[Any]
    said: list[str]
    close_s: float
    problems: list[str]


@pytest.fixture
def run(make_kernel: Any) -> Callable[..., Ran]:
    """Run turns with a configuration, and close the kernel: at once, or when ``until`` is true of the warnings so far."""

    async def answered(request: Any) -> ReviewDecision:
        del request
        return ReviewDecision(Decision.APPROVED)

    async def played(
        config: str,
        replies: Sequence[Any],
        turns: int,
        env: dict[str, str],
        until: Callable[[list[str]], bool],
        **settings: Any,
    ) -> Ran:
        async with asyncio.timeout(60):
            async with make_kernel(replies, config=config, tools=[risky], env=env) as kernel:
                settings = {"approval_policy": "on-request", **settings}
                thread = await kernel.start_thread(**settings)
                heard: list[str] = []
                following = thread.events(answers=False)
                listening = asyncio.ensure_future(following.each(lambda event: _warned(event, heard)))
                results = [await thread.run("Hello!", on_request=answered) for _ in range(turns)]
                patience = time.monotonic() + 30
                while not until(heard) and time.monotonic() < patience:
                    await asyncio.sleep(0.01)
                reports = [report for report in kernel.registry.reports if report.name == "notify"]
                problems = [problem.fact for report in reports for problem in report.problems]
                await thread.shutdown()
                await listening
                began = time.monotonic()
                await kernel.aclose()
                close_s = time.monotonic() - began
        said = [*heard, *(text for text in kernel.registry.warnings if text.startswith("notif"))]
        return Ran(results, said, close_s, problems)

    def run(
        config: str = "",
        replies: Sequence[Any] = (say("Done."),),
        *,
        turns: int = 1,
        env: dict[str, str] | None = None,
        until: Callable[[list[str]], bool] = lambda said: True,
        **settings: Any,
    ) -> Ran:
        return asyncio.run(played(config, replies, turns, env or {}, until, **settings))

    return run


def _warned(event: Any, texts: list[str]) -> None:
    if event.msg.type == "warning" and event.msg.message.startswith("notif"):
        texts.append(event.msg.message)
