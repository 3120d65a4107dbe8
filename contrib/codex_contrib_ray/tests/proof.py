"""Many sessions of a batch on two workers, while workers, the program and the database are lost.

    python contrib/codex_contrib_ray/tests/proof.py [--sessions 1000] [--store rollout|postgres]

Each session makes ten calls, and each call appends a line to a file. A worker is killed every few seconds. The program, which is
``codex-framework batch``, is killed and started again once. With the store ``postgres``, its connections are cut and the server is
restarted. At the end, all rows must be completed, and each call must have appended one line.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
from conftest import Cluster
from scene import ACTIONS, Scene

from codex_contrib_ray.settings import RaySettings

CALLS = 10
POSTGRES = Path(__file__).parents[2] / "codex_contrib_postgres" / "tests"


@attrs.frozen
class Told:
    """What happened in a proof.

    Attributes:
        kills: How many workers were killed.
        continued: How many sessions have lost their worker and were continued.
        most: How often one session was continued, at most.
    """

    kills: int
    continued: int
    most: int
    seconds: float


class Batch:
    """A batch of sessions in a scene, as a person runs it."""

    def __init__(self, scene: Scene, sessions: int) -> None:
        self._rows = scene.folder / "rows.jsonl"
        self._rows.write_text("".join(f'{{"prompt": "act", "key": {number}}}\n' for number in range(sessions)))
        self._environ = {**os.environ, "CODEX_HOME": str(scene.home)}
        self._command = [sys.executable, "-P", "-m", "codex_framework", "--plugin", str(ACTIONS), "batch"]
        self._command += [
            str(self._rows),
            "--launcher",
            "ray",
            "--max",
            "64",
            "--retries",
            "20",
            "--cd",
            str(scene.work),
        ]
        self.log = scene.folder / "log"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command, for the first time or again."""
        with self.log.open("ab") as log:
            return subprocess.Popen(self._command, env=self._environ, stdout=log, stderr=log)

    def results(self) -> list[dict[str, Any]]:
        """Return the last result of each row."""
        file = self._rows.with_name("rows.results.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return [*{line["key"]: line for line in lines if line["type"] == "result"}.values()]


def prove(
    scene: Scene,
    sessions: int,
    *,
    accidents: list[tuple[float, Callable[[], None]]],
    kill_every_s: tuple[float, float],
    chance: random.Random,
) -> Told:
    """Run a batch while workers are killed, and return what happened. Raises AssertionError if a call is missing or happened twice.

    Args:
        accidents: What else happens, after which share of all calls.
        kill_every_s: The shortest and the longest time between two kills of a worker.
    """
    batch = Batch(scene, sessions)
    total, kills = sessions * scene.rounds, 0
    due = [*accidents]
    began = time.monotonic()
    kill_at = began + chance.uniform(*kill_every_s)
    program_dies_at = 0.25
    program = batch.start()
    try:
        while program.poll() is None:
            share = scene.effects.read_bytes().count(b"\n") / total
            if share > program_dies_at:
                program.kill()
                program.wait()
                program, program_dies_at = batch.start(), 2.0
            if due and share > due[0][0]:
                due.pop(0)[1]()
            if time.monotonic() > kill_at:
                kills += kill_one(scene, chance)
                kill_at = time.monotonic() + chance.uniform(*kill_every_s)
            time.sleep(0.1)
    finally:
        program.kill()
        program.wait()
    results = batch.results()
    bad = [result for result in results if result["status"] != "completed"]
    assert program.returncode == 0, (bad[:3], batch.log.read_text()[-3000:])
    assert len(results) == sessions
    assert program_dies_at > 1, "the program was not killed"
    assert not due, "not everything has happened"
    acted = scene.acted_all()
    wanted = {(result["thread_id"], number) for result in results for number in range(1, scene.rounds + 1)}
    missing = wanted - acted.keys()
    twice = [each for each, times in acted.items() if times > 1]
    unknown = acted.keys() - wanted
    wrong = {"missing": sorted(missing)[:5], "twice": twice[:5], "unknown": sorted(unknown)[:5]}
    assert not any(wrong.values()), wrong
    again = [result["attempts"] - 1 for result in results if result["attempts"] > 1]
    return Told(kills, len(again), max(again, default=0), time.monotonic() - began)


def kill_one(scene: Scene, chance: random.Random) -> bool:
    """Kill one of the workers, if one has acted. Return whether one was killed."""
    alive = [pid for pid in sorted(scene.workers()) if _is_worker(pid)]
    if not alive:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(alive), signal.SIGKILL)
        return True
    return False


def _is_worker(pid: int) -> bool:
    """Return whether a process is a worker. The number of one that has ended may belong to another process or thread by now."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return False


def configuration(settings: RaySettings, home: Path, **more: Any) -> str:
    """Return the configuration of the launcher and of a store, in TOML."""
    environ = json.dumps({"CODEX_HOME": str(home)}).replace(": ", " = ")
    return (
        f'[framework.plugins.ray]\naddress = "{settings.address}"\nnamespace = "{settings.namespace}"\nidle_s = {settings.idle_s}\n'
        f"runtime_env = {{ env_vars = {environ} }}\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    )


def postgres_store(url: str) -> str:
    """Return the configuration of the thread store, in TOML."""
    return f'[framework]\nthread_store = "postgres"\n\n[framework.plugins.postgres]\nurl = "{url}"\nlease_s = 3.0\nmust_save = true\n'


@contextmanager
def postgres() -> Iterator[tuple[str, list[tuple[float, Callable[[], None]]]]]:
    """Start PostgreSQL behind a proxy. Yield the URL of a database, and what happens to it."""
    server_module, proxy_module = _load("conftest"), _load("proxy")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        server = server_module.Server(folder)
        ending.callback(server.stop)
        proxy = proxy_module.Proxy(server.new_database())
        ending.callback(proxy.close)

        def restart() -> None:
            server.stop()
            time.sleep(1)
            server.start()

        yield proxy.url, [(0.35, proxy.cut), (0.5, restart), (0.65, proxy.cut)]


def _load(name: str) -> Any:
    """Return a module of the tests of codex-contrib-postgres."""
    spec = importlib.util.spec_from_file_location(f"postgres_{name}", POSTGRES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run the proof, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--store", choices=["rollout", "postgres"], default="rollout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-every", type=float, nargs=2, default=(3.0, 8.0), metavar="SECONDS", help="the range")
    options = parser.parse_args()
    with ExitStack() as ending:
        cluster = Cluster()
        ending.callback(cluster.stop)
        cluster.add_node()
        folder = Path(tempfile.mkdtemp())
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        settings = RaySettings(address=cluster.address, namespace="proof", idle_s=20.0)
        config = configuration(settings, folder / "home")
        accidents: list[tuple[float, Callable[[], None]]] = []
        if options.store == "postgres":
            url, accidents = ending.enter_context(postgres())
            config += postgres_store(url)
        scene = Scene(folder, rounds=CALLS, more=config)
        ending.callback(scene.close)
        chance = random.Random(options.seed)
        told = prove(
            scene, options.sessions, accidents=accidents, kill_every_s=tuple(options.kill_every), chance=chance
        )
        print(
            f"{options.store}: {options.sessions} sessions have completed in {told.seconds:.0f} s, and each of"
            f" {options.sessions * CALLS} calls had its effect once. {told.kills} workers were killed;"
            f" {told.continued} sessions were continued, one of them {told.most} times."
        )


if __name__ == "__main__":
    main()
