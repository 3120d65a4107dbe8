"""The page and the README on testing the project: every environment is told of and run, and one plugin's tests run as told."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
KEPT = ("codex_framework", "plugins", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "tests")
TOX = ConfigParser()
TOX.read(ROOT / "tox.ini", encoding="utf-8")
FIRST = re.split(r",\s*", TOX["tox"]["env_list"])
"""What README's test command runs."""


def later() -> list[str]:
    """What ``.ci/run`` runs after that."""
    found = re.findall(r'tox run -e "([\w,-]+)"', (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    return ",".join(found).split(",")


def test_every_environment_is_run_once():
    sections = [name.removeprefix("testenv:") for name in TOX.sections() if name.startswith("testenv:")]
    assert sorted([*FIRST, *later()]) == sorted({*sections, "py"})


def test_the_page_tells_of_every_environment():
    page = (ROOT / "docs" / "extend" / "test-the-project.md").read_text(encoding="utf-8")
    first, longer = (
        re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| (`.*?) \|", part, re.M)))
        for part in page.split("The longer environments", 1)
    )
    assert (first, longer) == (FIRST, later())


def command() -> str:
    found = re.search(r"<!-- inner loop -->\n```console\n(.*)\n```", README)
    assert found
    return found[1]


def test_its_folder_and_marker_exist():
    assert (ROOT / command().split()[-1]).is_dir()
    assert re.search(r'"slow: ', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert '-m "not slow"' in command()


@pytest.mark.thorough
def test_it_runs_the_tests_of_a_plugin(tmp_path, uv):
    """It takes ten seconds: an environment is made with all that the tests need."""
    for name in KEPT:
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    subprocess.run([uv, "venv", "-q", "--allow-existing", tmp_path / ".venv"], check=True)
    (tmp_path / ".venv" / "bin" / "uv").symlink_to(uv)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TOX_", "PYTEST_", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command()], cwd=tmp_path, env=kept, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
