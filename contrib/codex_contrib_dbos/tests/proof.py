"""Many sessions, with lost workers, programs and databases: python tests/proof.py [SESSIONS] [--sqlite].

It runs a batch of sessions of ten calls on two workers. Workers are killed at random moments, connections to PostgreSQL are cut, it is
restarted, and the program is killed and started again. In the end, each call of each session must have had its effect once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from conftest import PLUGIN, Server, Site, job, run_model, run_server
from proxy import Proxy

STEPS = 10


class Proof:
    """A batch of sessions, and what happens to it.

    Args:
        server: The server of the database. Without it, the database is SQLite, and the program starts the workers.
    """

    def __init__(self, site: Site, server: Server | None, sessions: int, seed: int = 1) -> None:
        self._site = site
        self._server = server
        self._chance = random.Random(seed)
        self._keys = [f"session-{number}" for number in range(sessions)]
        self._rows = site.folder / "rows.jsonl"
        self._rows.write_text(
            "".join(
                json.dumps({"key": key, "prompt": job(key, STEPS, pause_s=0.05).prompt}) + "\n" for key in self._keys
            )
        )
        self._proxy = None if server is None else Proxy(site.url)
        if self._proxy is not None:
            site.url = self._proxy.url
        self._workers: list[subprocess.Popen[bytes]] = []
        self._program: subprocess.Popen[bytes] | None = None

    def run(self, kills: int) -> list[dict[str, Any]]:
        """Run the batch while workers are killed, and return its results."""
        if self._server is not None:
            self._workers = [self._site.start_worker(), self._site.start_worker()]
        self._start_program()
        losses: list[Callable[[], object]] = [self._kill_worker] * kills + [self._kill_program]
        if self._server is not None:
            losses += [self._cut, self._cut, self._restart]
        self._chance.shuffle(losses)
        for number, lose in enumerate(losses, 1):
            self._wait_for_effects(len(self._keys) * STEPS * number // (len(losses) + 1))
            lose()
        assert self._program is not None
        status = self._program.wait()
        results = [json.loads(line) for line in self._rows.with_suffix(".results.jsonl").read_text().splitlines()]
        results = [each for each in results if each["type"] == "result"]
        bad = [each for each in results if each["status"] != "completed"]
        assert (status, bad[:3]) == (0, [])
        assert sorted(each["key"] for each in results) == sorted(self._keys)
        steps = {key: self._site.steps(key) for key in self._keys}
        wrong = {key: found for key, found in steps.items() if found != [*range(1, STEPS + 1)]}
        assert not wrong, wrong
        return results

    def close(self) -> None:
        """End the program and the proxy."""
        if self._program is not None and self._program.poll() is None:
            self._program.kill()
            self._program.wait()
        if self._proxy is not None:
            self._proxy.close()

    def _start_program(self) -> None:
        workplace = self._site.workplace(workers=0 if self._server is not None else 2)
        command = [sys.executable, "-P", "-m", "codex_framework", "--plugin", str(PLUGIN), "batch", str(self._rows)]
        command += ["--launcher", "dbos", "--max", str(len(self._keys)), "-C", str(self._site.folder)]
        for override in workplace.overrides:
            command += ["-c", override]
        with (self._site.folder / "program.log").open("ab") as log:
            environ = {**os.environ, **workplace.environ}
            self._program = subprocess.Popen(command, cwd=self._site.folder, env=environ, stdout=log, stderr=log)

    def _kill_program(self) -> None:
        assert self._program is not None
        self._program.kill()
        self._program.wait()
        self._start_program()

    def _kill_worker(self) -> None:
        if self._workers:
            lost = self._chance.randrange(len(self._workers))
            self._workers[lost].kill()
            self._workers[lost] = self._site.start_worker()
            return
        assert self._program is not None
        pid = self._program.pid
        while not (workers := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            time.sleep(0.1)
        os.kill(int(self._chance.choice(workers)), signal.SIGKILL)

    def _cut(self) -> None:
        assert self._proxy is not None
        self._proxy.cut()

    def _restart(self) -> None:
        """Restart PostgreSQL, and kill a worker while it is away."""
        assert self._server is not None
        self._server.stop()
        time.sleep(1)
        lost = self._workers.pop(0)
        lost.kill()
        time.sleep(1)
        self._server.start()
        self._workers.append(self._site.start_worker())

    def _wait_for_effects(self, count: int) -> None:
        """Wait for a number of calls."""
        assert self._program is not None
        while sum(path.read_bytes().count(b"\n") for path in self._site.effects.iterdir()) < count:
            if self._program.poll() is not None:  # the database or a worker was lost while it opened the launcher
                error = (self._site.folder / "program.log").read_text()[-2000:]
                assert "Error: cannot open the queue" in error or "Error: a worker did not start" in error, error
                self._start_program()
            time.sleep(0.3)


def prove(site: Site, server: Server | None, sessions: int, *, kills: int) -> int:
    """Run the proof, and return how many times a session was continued."""
    proof = Proof(site, server, sessions)
    try:
        return sum(result["attempts"] - 1 for result in proof.run(kills))
    finally:
        proof.close()


def main() -> None:
    """Print what the proof has shown."""
    options = sys.argv[1:]
    is_sqlite = "--sqlite" in options
    sessions = next((int(option) for option in options if option.isdigit()), 1000)
    with run_model() as model, ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        server = None if is_sqlite else stack.enter_context(run_server())
        site = Site(
            Path(folder), f"sqlite:///{folder}/queue.sqlite" if server is None else server.new_database(), model
        )
        began = time.monotonic()
        try:
            continued = prove(site, server, sessions, kills=max(3, sessions // 50))
        finally:
            site.close()
    seconds = time.monotonic() - began
    print(f"{sessions} sessions of {STEPS} calls complete, no call twice, {continued} continued, in {seconds:.0f} s")


if __name__ == "__main__":
    main()
