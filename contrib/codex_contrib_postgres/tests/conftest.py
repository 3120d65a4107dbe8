"""A real PostgreSQL server on loopback for the tests, and a SQLite file."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


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
        self._process = subprocess.Popen(
            [_program("postgres"), "-D", str(self._data), *options], user=self._user, stderr=subprocess.DEVNULL
        )
        for _ in range(1000):
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, "PostgreSQL has ended"
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


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Return a server that ends with the tests."""
    with tempfile.TemporaryDirectory() as name:  # other runs of pytest take the rights from the folders of this one
        folder = Path(name)
        folder.chmod(0o755)
        started = Server(folder)
        try:
            yield started
        finally:
            started.stop()


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/threads.sqlite"
    found: Server = request.getfixturevalue("server")
    return found.new_database()


@pytest.fixture
def postgres_url(server: Server) -> str:
    """Return the URL of an empty database of PostgreSQL."""
    return server.new_database()
