"""The tutorial, done word for word: its files are written, its commands run in a fresh environment, its output compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial" / "first-tool.md"


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
