"""The built distributions hold what they should."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, uv: str) -> Path:
    """A folder with a sdist and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [uv, "build", "--python", sys.executable, "--out-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def source_files() -> set[str]:
    """Every file below the import packages, as the wheel should name it."""
    packages = [ROOT / "codex_framework", *(ROOT / "plugins").glob("codex_*")]
    return {
        str(file.relative_to(package.parent))
        for package in packages
        for file in package.rglob("*")
        if file.is_file() and not any(part == "__pycache__" or part.endswith("_cache") for part in file.parts)
    }


def test_the_wheel_holds_every_source_file_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name and ".data/" not in name}
    assert names == source_files()


def test_the_wheel_brings_the_documentation(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (place,) = {name.partition("/")[0] for name in wheel.namelist() if ".data/" in name}
        folder = f"{place}/data/share/doc/codex-framework/"
        names = {name.removeprefix(folder) for name in wheel.namelist() if name.startswith(f"{place}/")}
        assert wheel.read(f"{folder}errors.md") == (ROOT / "docs" / "errors.md").read_bytes()
    shown = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/pictures").iterdir()]
    assert names == {*(str(file.relative_to(ROOT / "docs")) for file in shown), "CHANGELOG.md"}


def test_the_wheel_names_commands_plugins_and_the_pytest_plugin(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
        entry_points = ConfigParser()
        entry_points.read_string(wheel.read(name).decode())
    assert set(entry_points["console_scripts"]) == {"codex-framework", "cxf"}
    values = [*entry_points["codex_framework.commands"].values(), *entry_points["codex_framework.front_ends"].values()]
    clients = {value.partition(":")[0].partition(".")[0] for value in values}
    assert clients == {folder.name for folder in (ROOT / "plugins").glob("codex_client_*")}
    plugins = {value.partition(".")[0] for value in entry_points["codex_framework"].values()}
    assert plugins == {folder.name for folder in (ROOT / "plugins").glob("codex_plugin_*")} | {"codex_client_terminal"}
    assert dict(entry_points["pytest11"]) == {"codex_framework": "codex_framework.testing.plugin"}


def test_the_sdist_holds_tests_docs_and_contrib(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        tops = {Path(name).parts[1] for name in sdist.getnames() if len(Path(name).parts) > 1}
    assert {"codex_framework", "plugins", "contrib", "tests", "docs", "benchmarks", "README.md", "LICENSE"} <= tops
