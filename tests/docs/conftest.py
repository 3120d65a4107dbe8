"""Does what a page says, word for word: writes its files, runs its commands in one shell, compares what they print."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

ROOT = Path(__file__).parents[2]
ADDRESS = "https://git.example.org/codex-framework.git"
"""What readers replace by the address of the repository."""

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)


@attrs.frozen
class Command:
    """A command and what the page shows of its output. None means that it shows nothing."""

    line: str
    shown: str | None


@attrs.frozen
class File:
    """A file that the reader writes."""

    path: str
    text: str


def steps(page: str) -> list[Command | File]:
    found: list[Command | File] = []
    for kind, title, text in BLOCK.findall(page):
        if title:
            found.append(File(title, text))
        elif kind == "console":
            found += commands(text)
        else:
            raise AssertionError(f"a {kind} block is neither a file nor a session:\n{text}")
    return found


def commands(session: str) -> list[Command]:
    parts = re.split(r"^\$ (.*)\n", session, flags=re.M)[1:]
    return [Command(line, shown or None) for line, shown in zip(parts[::2], parts[1::2], strict=True)]


def script(todo: list[Command | File]) -> str:
    """One shell session; what each command prints stands between markers with its number."""
    lines = []
    for number, step in enumerate(todo):
        if isinstance(step, File):
            lines += [f"mkdir -p {shlex.quote(os.path.dirname(step.path) or '.')}"]  # noqa: PTH120
            lines += [f"cat > {shlex.quote(step.path)} <<'END OF FILE'\n{step.text}END OF FILE"]
        else:
            lines += [f"echo; echo '>>> {number}'", step.line, f"status=$?; echo; echo '<<< {number}' $status"]
    return "\n".join(lines)


def matches(shown: str, came: str) -> bool:
    """Whether the output is what the page shows; ``...`` there stands for any text, alone on a line for any lines."""
    pattern = re.sub(r"^(\\\.){3}\\?\n", r"(?:.*\\n)?", re.escape(shown.strip()) + "\n", flags=re.M)
    pattern = pattern.replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, came.strip() + "\n", re.S) is not None


def walk_through(page: str, folder: Path, env: Mapping[str, str]) -> None:
    """Take every step of a page. Skip the test if the packages cannot be installed here."""
    todo = steps(page)
    done = subprocess.run(
        ["/bin/bash", "-c", script(todo)],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    for number, step in enumerate(todo):
        if isinstance(step, File):
            continue
        found = re.search(rf"^>>> {number}\n(.*?)^<<< {number} (\d+)$", done.stdout, re.S | re.M)
        assert found, f"`{step.line}` was not reached:\n{done.stdout}\n{done.stderr}"
        came, status = found[1], int(found[2])
        if status and step.line.startswith("pip install"):
            pytest.skip(f"pip cannot install here: {done.stderr.strip().splitlines()[-1:]}")
        assert status == 0, f"`{step.line}` failed:\n{came}\n{done.stderr}"
        if step.shown is not None:
            assert matches(step.shown, came), f"`{step.line}` is shown as\n{step.shown}\nand gives\n{came}"


@pytest.fixture(scope="session")
def pages() -> Any:
    """What reads and walks through a page."""
    return SimpleNamespace(steps=steps, matches=matches, walk_through=walk_through, Command=Command, File=File)


@pytest.fixture
def reader_env(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The environment of a reader whose home is ``tmp_path``: caches and certificates are those of this machine."""

    def make(*programs: Path, **more: str) -> dict[str, str]:
        kept = {
            key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_", "HTTP", "http"))
        }
        path = [str(tmp_path / ".local" / "bin"), *map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"]
        return {**kept, "HOME": str(tmp_path), "LANG": "C.UTF-8", "PATH": os.pathsep.join(path), **more}

    return make


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Replace the address of the repository in a page by one on loopback, where git gets the files under test."""
    folder = tmp_path_factory.mktemp("repository")
    source, served = folder / "source", folder / "codex-framework.git"
    everywhere = shutil.ignore_patterns("__pycache__", ".*", "node_modules")
    at_the_top = shutil.ignore_patterns("tests", "benchmarks", "build", "dist")

    def ignored(place: str, names: list[str]) -> set[str]:
        return everywhere(place, names) | (at_the_top(place, names) if Path(place) == ROOT else set())

    shutil.copytree(ROOT, source, ignore=ignored)
    git = ["git", "-c", "user.name=Reader", "-c", "user.email=reader@example.org", "-C", source]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Everything"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", source, served], check=True)
    subprocess.run(["git", "-C", served, "update-server-info"], check=True)  # for plain file servers
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever).start()

        def replace(page: str) -> str:
            assert page.count(ADDRESS) == 1
            return page.replace(ADDRESS, f"http://127.0.0.1:{server.server_port}/{served.name}")

        yield replace
        server.shutdown()
