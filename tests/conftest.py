"""How deep property tests go, the wheel under test, and fresh environments to install it into."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.forked import RunProgram

ROOT = Path(__file__).parents[1]

EXAMPLES = {"quick": 20, "thorough": 200, "deep": 20_000}
"""Examples for each property test. Tests that need more or fewer say so as a multiple."""

for depth, count in EXAMPLES.items():
    settings.register_profile(
        depth,
        max_examples=count,
        deadline=None,
        derandomize=depth != "deep",
        suppress_health_check=list(HealthCheck) if depth == "deep" else [HealthCheck.too_slow],
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--depth",
        choices=EXAMPLES,
        default="quick",
        help="examples for each property test: 20 (quick), 200 (thorough) or 20,000 (deep); "
        "tests marked `thorough` run unless it is quick",
    )
    parser.addoption(
        "--installed-program",
        action="store_true",
        help="start the installed program for every command line; otherwise most are run in forks of the tests' processes",
    )
    parser.addoption(
        "--renew-recordings", action="store_true", help="write the recordings of tests/clients/test_recordings.py anew"
    )
    parser.addoption(
        "--within", type=float, metavar="SECONDS", help="start no test after this time; those that are left are skipped"
    )


@pytest.fixture
def run_program(request: pytest.FixtureRequest) -> RunProgram:
    """Run a command line to the end: ``run_program(*argv, cwd=..., env=..., stdin=None)``."""
    from tests.forked import run_program, server

    server()  # now, because its socket would look as if the test had left it open
    return partial(run_program, fork=not request.config.getoption("--installed-program"))


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: that makes hardly any garbage, and looking for it takes a third of the time
    settings.load_profile(config.getoption("--depth"))
    if not hasattr(config, "workerinput"):  # xdist's workers inherit it
        _use_empty_home(config)
    # Ignored interrupts, as under `nohup` or after `&` in a script, would be inherited by the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _use_empty_home(config: pytest.Config) -> None:
    """Set ``$HOME`` to an empty folder until the end, so that no login shell runs a person's profile, which may take long.

    The caches stay where they are.
    """
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    home = tempfile.TemporaryDirectory(prefix="home-")
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name


def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are cores, because many tests wait for processes, servers and the end of time limits."""
    return 2 * (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


BEGAN = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    within = item.config.getoption("--within")
    if within is not None and time.monotonic() - BEGAN > within:
        pytest.skip(f"the {within:g} s of this run are over (--within)")


LIMITS_S = {"quick": 120, "thorough": 1200, "deep": 0}
"""The limit of a test that sets none of its own, by depth. 0: none."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process if even the failure of a test that hangs takes too long. xdist then names the test and replaces the worker."""
    limit = _limit_of(item)
    if limit:
        faulthandler.dump_traceback_later(2 * limit, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _limit_of(item: pytest.Item) -> float:
    own = item.get_closest_marker("timeout")
    return float(own.args[0] if own is not None and own.args else LIMITS_S[item.config.getoption("--depth")])


def pytest_itemcollected(item: pytest.Item) -> None:
    if "codex_binary" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.codex)
    depth = item.config.getoption("--depth")
    if depth != "quick" and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(LIMITS_S[depth]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each of xdist's workers begin with other files: in a new checkout, no two of them then compile the same ones."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or any(not os.path.isdir(each) for each in session.config.args):  # noqa: PTH112
        return
    files = sorted(str(file) for folder in session.config.args for file in Path(folder).rglob("test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    session.config.args[:] = files[first:] + files[:first]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)
    if config.getoption("--depth") != "quick":
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection_finish() -> None:
    """Keep what is collected out of garbage collection: it stays to the end, and 14,000 tests take 0.6 s to go through."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def codex_binary() -> str:
    """The real Codex, where it is at hand. Tests that have this argument are marked `codex`."""
    found = os.environ.get("CODEX_BINARY")
    if not found or not Path(found).exists():
        pytest.skip("no Codex at hand (CODEX_BINARY names no program)")
    return found


@pytest.fixture
def anchors() -> Path:
    """Recorded data of the real Codex, where it is at hand."""
    folder = Path(os.environ.get("CODEX_ANCHORS") or ROOT.parent / "shared" / "anchors")
    if not folder.is_dir():
        pytest.skip("no recorded data at hand (set CODEX_ANCHORS)")
    return folder


@pytest.fixture(scope="session")
def kernel_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel under test: the one that ``CODEX_FRAMEWORK_WHEEL`` or tox names, or one built once for all workers."""
    given = os.environ.get("CODEX_FRAMEWORK_WHEEL") or os.environ.get("TOX_PACKAGE")
    if given:
        return Path(given)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernel-wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return next(folder.glob("*.whl"), None) or build_wheel(ROOT, folder)


@pytest.fixture(scope="session")
def uv() -> str:
    """The program uv."""
    return find_uv()


def find_uv() -> str:
    return str(pytest.importorskip("uv", reason="uv is not installed").find_uv_bin())


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree. Skip the test if that is not possible here."""
    command = [find_uv(), "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", folder, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel can be built here: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel_builder() -> Callable[[Path, Path], Path]:
    """``build_wheel``, for tests in other folders."""
    return build_wheel


@attrs.frozen
class Venv:
    """A virtual environment of a test's own.

    Attributes:
        folder: Where it is.
    """

    folder: Path
    _uv: str

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def pip(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a subcommand of ``uv pip`` on it."""
        command = [self._uv, "pip", *arguments, "--quiet", "--python", self.programs / "python"]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def fresh_venv(tmp_path: Path, uv: str) -> Callable[..., Venv]:
    """Make a virtual environment and install into it. Skip the test if the packages cannot be had."""

    def make(*requirements: str | Path) -> Venv:
        made = Venv(tmp_path / "venv", uv)
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, made.folder], check=True)
        done = made.pip("install", *requirements)
        if done.returncode:
            pytest.skip(f"nothing can be installed here: {done.stderr.strip().splitlines()[-1:]}")
        return made

    return make


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and localhost that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs openssl")
    folder = tmp_path_factory.mktemp("certificate")
    files = (folder / "cert.pem", folder / "key.pem")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*command, "-days", "2", "-out", files[0], "-keyout", files[1], *names], check=True, capture_output=True
    )
    return files
