"""The page of the app server lists the methods of its table."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs"


def test_the_page_equals_what_the_table_says():
    spec = importlib.util.spec_from_file_location("render_app_server", FOLDER / "render_app_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text("utf-8")
    assert page == module.rendered(page), "run python docs/render_app_server.py"
