"""A real PostgreSQL server on loopback, and programs and workers on it."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from codex_contrib_dbos.launcher import DbosLauncher, OpenDbos
from codex_contrib_dbos.settings import DbosSettings
from codex_framework.contract.roles.launchers import Job, Workplace

PLUGIN = Path(__file__).parent / "agent_plugin.py"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Server:
    """A PostgreSQL server. Programs come from PATH or from the package ``pgserver``."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        self._data = folder / "data"
        self._user = "nobody" if os.getuid() == 0 else None  # it refuses to run as root
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = ("-F", "-p", str(self.port), "-k", str(self._data), "-h", "127.0.0.1")
        with (self._data.parent / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", str(self._data), *options], user=self._user, stderr=log
            )
        for _ in range(1000):
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._data.parent / "log").read_text()[-2000:]
                time.sleep(0.03)
        raise AssertionError("PostgreSQL does not answer")

    def stop(self) -> None:
        """Stop without waiting for clients (a fast shutdown)."""
        if self._process is not None:
            self._process.send_signal(2)
            self._process.wait(60)
            self._process = None

    def new_database(self) -> str:
        """Create an empty database, and return its URL."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        return self.url.removesuffix("postgres") + name

    def _run(self, *command: str) -> None:
        subprocess.run([_program(command[0]), *command[1:]], check=True, user=self._user, stdout=subprocess.DEVNULL)


def _program(name: str) -> str:
    found = importlib.util.find_spec("pgserver")
    if found is not None and found.origin is not None:
        packaged = Path(found.origin).parent / "pginstall" / "bin" / name
        if packaged.exists() and os.access(packaged, os.X_OK):
            return str(packaged)
    if (path := shutil.which(name)) is None:
        pytest.skip(f"there is no {name}: install PostgreSQL, or the package pgserver")
    return path


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Site:
    """A database with its workers, and the folder in which sessions leave their effects."""

    def __init__(self, folder: Path, url: str, model: str) -> None:
        self.url = url
        self.model = model
        self.folder = folder
        self.effects = folder / "effects"
        self.effects.mkdir(exist_ok=True)
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.plugins = [str(PLUGIN)]
        self.overrides: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.told = ""

    def workplace(self, **settings: Any) -> Workplace:
        settings = {"url": self.url, "poll_s": 0.05, "lease_s": 2.0, **settings}
        overrides = [
            'model="gpt-5.5"',
            'model_provider="loopback"',
            'model_providers.loopback.name="loopback"',
            f"model_providers.loopback.base_url={json.dumps(self.model)}",
            "model_providers.loopback.request_max_retries=0",
            "model_providers.loopback.stream_max_retries=0",
            'sandbox_mode="danger-full-access"',
            'approval_policy="on-request"',
            'framework.thread_store="postgres"',
            f"framework.plugins.postgres.url={json.dumps(settings['url'])}",
            "framework.plugins.postgres.lease_s=1.0",
            "framework.plugins.postgres.must_save=true",
            *(f"framework.plugins.dbos.{key}={json.dumps(value)}" for key, value in settings.items()),
            *self.overrides,
        ]
        environ = {"CODEX_HOME": str(self.home), "EFFECTS": str(self.effects)}
        return Workplace(cwd=str(self.folder), overrides=overrides, plugins=self.plugins, environ=environ)

    @asynccontextmanager
    async def open(self, *, max_sessions: int | None = None, **settings: Any) -> AsyncIterator[OpenDbos]:
        """Open a launcher."""
        chosen = DbosSettings(**{"poll_s": 0.05, "lease_s": 2.0, "patience_s": 30.0, **settings})
        launcher = DbosLauncher(chosen, settings.pop("url", self.url))
        opened = await launcher.open(self.workplace(**settings), max_sessions=max_sessions)
        try:
            yield opened
        finally:
            await opened.aclose()

    def start_worker(self, **settings: Any) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until it takes jobs. What it has told until then is in ``told``."""
        workplace = self.workplace(**settings)
        command = [sys.executable, "-P", "-m", "codex_framework"]
        for plugin in workplace.plugins:
            command += ["--plugin", plugin]
        command += ["dbos-worker"]
        for override in workplace.overrides:
            command += ["-c", override]
        path = self.folder / f"worker-{len(self.processes)}.log"
        with path.open("wb") as log:  # nobody would read a pipe, and a worker that has lost its database writes a lot
            environ = {**os.environ, **workplace.environ}
            process = subprocess.Popen(command, cwd=self.folder, env=environ, stderr=log)
        self.processes.append(process)
        while "runs jobs of the queue" not in (told := path.read_text()):
            assert process.poll() is None, told
            time.sleep(0.02)
        self.told = told
        return process

    async def wait_for_step(self, name: str, step: int) -> None:
        """Wait until a session has had an effect."""
        end = time.monotonic() + 60
        while step not in self.steps(name):
            assert time.monotonic() < end, f"{name} never did step {step}"
            await asyncio.sleep(0.05)

    async def wait_for_file(self, name: str) -> None:
        """Wait until a session has left a file."""
        end = time.monotonic() + 60
        while not (self.effects / name).exists():
            assert time.monotonic() < end, f"there is no {name}"
            await asyncio.sleep(0.05)

    def steps(self, name: str) -> list[int]:
        """Return the effects of a session, in order."""
        path = self.effects / name
        return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []

    def pids(self, name: str) -> set[int]:
        """Return the workers that have run a session."""
        return {int(line.split()[1]) for line in (self.effects / name).read_text().splitlines()}

    def close(self) -> None:
        """End the workers."""
        for process in self.processes:
            process.kill()
            process.wait()


def job(name: str, steps: int = 2, *, attended: bool = False, agent: str | None = None, **task: Any) -> Job:
    """Return a job of some steps."""
    return Job(key=name, prompt=json.dumps({"name": name, "steps": steps, **task}), attended=attended, agent=agent)


@contextmanager
def run_model() -> Iterator[str]:
    """Run the model in a process of its own, and return its address."""
    command = [sys.executable, str(Path(__file__).parent / "model.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """Return the address of a model that ends with the tests."""
    with run_model() as url:
        yield url


@contextmanager
def run_server() -> Iterator[Server]:
    """Run a server of PostgreSQL."""
    folder = Path(tempfile.mkdtemp())  # other runs of pytest take the rights from the folders of this one
    folder.chmod(0o755)
    started = None
    try:
        started = Server(folder)
        yield started
    finally:
        if started is not None:
            started.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Return a server that ends with the tests."""
    with run_server() as started:
        yield started


@pytest.fixture(scope="module", params=["postgresql", "sqlite"])
def working(request: pytest.FixtureRequest, model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site with a worker, for all tests of a module."""
    folder = tmp_path_factory.mktemp("site")
    if request.param == "sqlite":
        url = f"sqlite:///{folder}/queue.sqlite"
    else:
        found: Server = request.getfixturevalue("server")
        url = found.new_database()
    made = Site(folder, url, model)
    try:
        made.start_worker()
        yield made
    finally:
        made.close()


@pytest.fixture
def site(server: Server, model: str, tmp_path: Path) -> Iterator[Site]:
    """Return a site with an empty database of PostgreSQL."""
    made = Site(tmp_path, server.new_database(), model)
    yield made
    made.close()
