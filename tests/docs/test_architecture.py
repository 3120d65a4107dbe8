"""Every place that the architecture names exists, and the order in which to read the kernel is the order of its imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?|[a-z_]+\.py)`", PAGE)))


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_the_page_names_exists(place):
    assert any((folder / place).exists() for folder in (ROOT / "codex_framework", ROOT)), place


def test_the_reading_order_names_each_module_of_the_spine_once():
    reading = PAGE.split("## Read the kernel", 1)[1].split("\n## ", 1)[0].split("Then, by interest", 1)[0]
    modules = re.findall(r"`([a-z_/]+\.py)`", reading)
    assert len(modules) == len(set(modules)) >= 13


def test_the_modules_of_the_spine_contain_no_work_of_plugins():
    """Spans, redaction and the comparison of values are imported by none of the modules that tell the story of a turn."""
    for module in ("driver", "sampling"):
        tree = ast.parse((ROOT / "codex_framework/threads/turn" / f"{module}.py").read_text(encoding="utf-8"))
        names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [name for name in names if re.search(r"provenance|redaction|spans|value_diff|json_patch", name)]
