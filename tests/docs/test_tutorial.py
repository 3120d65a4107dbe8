"""The tutorials, done word for word: their files are written, their commands run, and the output is compared.

The first one runs in a fresh environment, as its reader makes it. The others run in this one.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorial"
TUTORIAL = TUTORIALS / "first-tool.md"
PORT = "8000"
"""The port of the service in its tutorial, which a free one replaces."""


def test_shown_output_is_compared(pages):
    matches = pages.matches
    assert matches("a\nb.c\n", "a\nb.c\n\n")
    assert matches("...\n3 passed in ...s\n", "...   [100%]\n3 passed in 0.03s\n")
    assert matches("...\nlast\n", "last")
    assert matches("first\n...\n", "first\nand\nmore\n")
    assert matches("first\n...\n", "first\n")
    assert not matches("first\n...\n", "a first\nand\nmore\n")
    assert not matches("a\nb.c\n", "a\nbxc")
    assert not matches("3 passed in ...s", "2 passed in 0.1s")


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_every_step_of_the_tutorial_does_what_the_page_shows(tmp_path, repository, pages, reader_env):
    """It takes half a minute: pip runs ten times, and builds the reader's package three times."""
    place = tmp_path / "reader"
    place.mkdir()
    env = reader_env(Path(sys.executable).parent, PIP_DISABLE_PIP_VERSION_CHECK="1")
    pages.walk_through(repository(TUTORIAL.read_text(encoding="utf-8")), place, env)


def test_the_page_has_files_and_commands_of_every_kind(pages):
    todo = pages.steps(TUTORIAL.read_text(encoding="utf-8"))
    files = [step.path for step in todo if isinstance(step, pages.File)]
    assert {"find_todos.py", "pyproject.toml", "test_find_todos.py"} <= set(files)
    assert sum(isinstance(step, pages.Command) for step in todo) >= 15


@pytest.fixture
def walk(tmp_path, pages, reader_env):
    """Walk through a tutorial in this environment."""

    def go(page: str) -> None:
        place = tmp_path / "reader"
        place.mkdir()
        packages = os.pathsep.join([str(ROOT / "contrib/codex_contrib_web/src"), *map(str, filter(None, sys.path))])
        pages.walk_through(page, place, reader_env(Path(sys.executable).parent, PYTHONPATH=packages))

    return go


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_policy_and_the_interceptor_of_the_tutorial_do_what_the_page_shows(walk):
    walk((TUTORIALS / "policy-and-interceptor.md").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_service_of_the_tutorial_does_what_the_page_shows(walk):
    for module in ("httpx", "sse_starlette", "uvicorn"):
        pytest.importorskip(module, reason="codex-contrib-web needs it")
    if shutil.which("curl") is None:
        pytest.skip("curl is missing")
    page = (TUTORIALS / "agent-in-a-service.md").read_text(encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    walk(page.replace(PORT, port))


def test_every_tutorial_is_walked_through():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [page.name for page in TUTORIALS.glob("*.md") if f'"{page.name}"' not in text] == []
