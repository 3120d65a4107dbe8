"""The API reference equals what the code says, and has every public name and every operation, event and item."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import codex_framework
from codex_framework import testing

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference" / "api"


@pytest.fixture(scope="module")
def render() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_api", ROOT / "docs" / "render_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def test_the_pages_equal_what_the_code_says(render: ModuleType) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")}
    assert pages == render.pages(), "run `python docs/render_api.py`"


def test_every_public_name_has_one_entry() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md"))
    entries = re.findall(r"^\.\. auto\w+:: (codex_framework(?:\.testing)?\.\w+)$", text, re.MULTILINE)
    names = {f"codex_framework.{name}" for name in codex_framework.__all__}
    assert sorted(entries) == sorted(names | {f"codex_framework.testing.{name}" for name in testing.__all__})
