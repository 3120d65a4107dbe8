"""Profiles for property tests: quick by default, deep with ``--deep``. The wheel, and fresh environments to try it in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick", max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run property tests with 20,000 examples each")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("deep" if config.getoption("--deep") else "quick")


@pytest.fixture
def anchors() -> Path:
    """Recorded data of the real Codex, where it is at hand."""
    folder = Path(os.environ.get("CODEX_ANCHORS") or Path(__file__).parents[2] / "shared" / "anchors")
    if not folder.is_dir():
        pytest.skip("no recorded data at hand (set CODEX_ANCHORS)")
    return folder


@pytest.fixture(scope="session")
def kernel_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel: the one that ``CODEX_FRAMEWORK_WHEEL`` names, or one built once of the source tree."""
    given = os.environ.get("CODEX_FRAMEWORK_WHEEL")
    return Path(given) if given else build_wheel(Path(__file__).parents[1], tmp_path_factory.mktemp("kernel-wheel"))


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree; skips where that cannot be done."""
    command = [sys.executable, "-P", "-m", "build", "--wheel", "--outdir", folder, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel can be built here: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel_builder() -> Callable[[Path, Path], Path]:
    """``build_wheel``, for tests in other folders."""
    return build_wheel


@pytest.fixture
def fresh_venv(tmp_path: Path) -> Callable[..., Path]:
    """Make a virtual environment and install into it; gives its folder of programs. Skips where pip finds nothing."""

    def make(*requirements: str | Path) -> Path:
        folder = tmp_path / "venv"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot install here: {done.stderr.strip().splitlines()[-1:]}")
        return folder / "bin"

    return make
