"""The navigation of the site lists each page of the index once, by the text of its link."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def conf() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_conf", DOCS / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def navigation(index: str) -> list[str]:
    text = [index]
    conf()._add_navigation(None, "docs/index", text)
    return re.findall(r"^:caption: .+|^.+ </.+>$", text[0], re.MULTILINE)


def test_a_page_belongs_to_its_first_group():
    index = """
## Configure

- [Use hooks](plugins/hooks.md): your own commands
- [Contribute](../CONTRIBUTING.md)

## Plugins

| [hooks](plugins/hooks.md) | runs commands |
| [plan](plugins/plan.md) | shows the plan |
"""
    assert navigation(index) == [
        ":caption: Configure",
        "Use hooks </docs/plugins/hooks.md>",
        "Contribute </CONTRIBUTING.md>",
        ":caption: Plugins",
        "plan </docs/plugins/plan.md>",
    ]


def test_the_index_gives_each_page_one_place():
    entries = [line for line in navigation((DOCS / "index.md").read_text(encoding="utf-8")) if not line.startswith(":")]
    pages = [entry.rpartition(" <")[2] for entry in entries]
    assert len(pages) == len(set(pages)) > 100
    assert "Use hooks </docs/plugins/hooks.md>" in entries
