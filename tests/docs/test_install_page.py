"""Every command of the page on installing is run, by pip, uv and pipx, with the wheels under test as what they install."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## With (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M))
"""By tool, its part of the page."""


@pytest.fixture
def wheels(tmp_path, kernel_wheel, wheel_builder, uv):
    """The variables with which every installer takes the wheels under test."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for wheel in (kernel_wheel, wheel_builder(ROOT / "contrib" / "codex_contrib_docker", tmp_path / "dist")):
        (folder / wheel.name).symlink_to(wheel.resolve())
    constraint = tmp_path / "constraint.txt"
    built = [wheel.name.split("-")[:2] for wheel in folder.glob("*.whl")]
    constraint.write_text("".join(f"{name.replace('_', '-')}=={version}\n" for name, version in built))
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        **{f"{tool}_FIND_LINKS": str(folder) for tool in ("PIP", "UV")},
        **{f"{tool}_CONSTRAINT": str(constraint) for tool in ("PIP", "UV")},
        "UV_CACHE_DIR": cache,
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
    }


def walk(tool, tmp_path, pages, env):
    place = tmp_path / "reader"
    place.mkdir()
    pages.walk_through(SECTIONS[tool], place, env)


def test_the_page_tells_of_each_tool():
    assert list(SECTIONS) == ["pip", "uv", "pipx"]


@pytest.mark.thorough
def test_uv(tmp_path, wheels, pages, reader_env, uv):
    """It takes some seconds: uv makes five environments."""
    walk("uv", tmp_path, pages, reader_env(Path(uv).parent, **wheels))


@pytest.mark.thorough
def test_pip(tmp_path, wheels, pages, reader_env):
    """It takes ten seconds: pip starts in a new environment and installs all that is required."""
    walk("pip", tmp_path, pages, reader_env(Path(sys.executable).parent, **wheels))


@pytest.mark.thorough
def test_pipx(tmp_path, wheels, pages, reader_env, fresh_venv, uv):
    """It takes ten seconds: pipx makes four environments."""
    pipx = fresh_venv("pipx")
    walk("pipx", tmp_path, pages, reader_env(pipx.programs, Path(uv).parent, **wheels))
