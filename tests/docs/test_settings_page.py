"""Every command of the page on changing settings is run, and prints what the page shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "configure" / "change-settings.md"


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path, pages, reader_env):
    place = tmp_path / "reader"
    place.mkdir()
    page = PAGE.read_text(encoding="utf-8")
    pages.walk_through(page, place, reader_env(Path(sys.executable).parent, DOCS_TOKEN="s3cret"))
    text = (tmp_path / ".codex" / "config.toml").read_text()
    assert 'TOKEN = "s3cret"' in text
    assert sum(isinstance(step, pages.Command) for step in pages.steps(page)) >= 11
