"""Every command of the page on installing is run by pip, uv and pipx, with a repository on loopback in place of the real address."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = next((ROOT / "docs").rglob("install.md")).read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M))
FENCED = re.compile(r"^ *```(?:console|sh)\n(.*?)^ *```", re.S | re.M)
INSTALLS = re.compile(
    r"\b(pip3? (install|download|wheel)|uv (add|run --with|tool (install|run))|uvx|pipx (run|install)) "
)


@pytest.fixture
def follow(tmp_path, pages, reader_env, repository, uv):
    """Follow the first section, and that of an installer. The repository's address is the only thing that is replaced."""
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    more = {"UV_CACHE_DIR": cache, "UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never"}

    def walk(section: str, *programs: Path) -> None:
        text = repository(SECTIONS["Where it comes from"] + SECTIONS[section])
        place = tmp_path / "reader"
        place.mkdir()
        pages.walk_through(text, place, reader_env(*programs, **more))

    return walk


def test_the_page_has_a_section_for_each_installer():
    assert {"With pip", "With uv", "With pipx"} <= set(SECTIONS)


def test_every_extra_is_listed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert re.findall(r"^\| `(\w+)` \|", SECTIONS["With pip"], re.M) == [*sorted(extras.keys() - {"all"}), "all"]


def takes_from_an_index(line: str) -> bool:
    """Whether a command gets one of our distributions by its name. An extra's name only adds to an installation."""
    words = shlex.split(line, comments=True)
    ours = any(re.fullmatch(r"codex-(framework|contrib-\w+)([=<>].*)?", word) for word in words)
    return ours and bool(INSTALLS.search(line)) and not {"--from", "--spec"} & set(words)


@pytest.mark.parametrize(
    "line",
    ["pip install -q codex-framework", "uvx codex-framework --version", "uv tool install --with x 'codex-contrib-web'"],
)
def test_commands_that_need_an_index_are_recognised(line):
    assert takes_from_an_index(line)


def test_no_page_takes_a_distribution_from_an_index():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "contrib").glob("*/README.md")]
    blocks = [text for page in pages for text in FENCED.findall(page.read_text(encoding="utf-8"))]
    lines = [line for text in blocks for line in text.splitlines() if INSTALLS.search(line)]
    assert [line for line in lines if takes_from_an_index(line)] == []


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_uv(follow, uv):
    """It takes twenty seconds: uv makes six environments, and builds wheels for them."""
    follow("With uv", Path(uv).parent)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_pip(follow):
    """It takes a minute: pip builds wheels eight times, and installs all that is required."""
    follow("With pip", Path(sys.executable).parent)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_pipx(follow, fresh_venv, uv):
    """It takes a minute: pipx makes four environments."""
    follow("With pipx", fresh_venv("pipx").programs, Path(uv).parent)
