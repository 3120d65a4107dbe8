"""The page about the plugin API names every module that the docs, the skeleton and the plugins in ``contrib`` import, and no other."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework import PLUGIN_API
from codex_framework.loader.registry import load_registry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/plugin-api.md").read_text(encoding="utf-8")
STABLE = [
    *dict.fromkeys(re.findall(r"`(codex_[a-z_]+(?:\.[a-z][a-z_]*)*(?:\.\*)?)`", PAGE.partition("In these modules")[0]))
]
FRAMEWORK = re.compile(r"^\s*(?:from|import) (codex_(?:framework|lib_)[\w.]*)", re.M)


def is_stable(module: str) -> bool:
    """Return whether the page names a module, its package with ``.*``, or the library that it is part of."""
    parts = module.split(".")
    packages = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    wild = {f"{package}.*" for package in packages}
    return module in STABLE or (parts[0].startswith("codex_lib_") and parts[0] in STABLE) or bool(wild & {*STABLE})


def used() -> Iterator[tuple[str, str]]:
    pages = [
        page
        for group in ("run", "configure", "extend", "operate", "tutorial")
        for page in (ROOT / "docs" / group).glob("*.md")
    ]
    code = [*ROOT.glob("contrib/*/src/**/*.py"), *(ROOT / "codex_framework/toolkit/skeleton/files").rglob("*.in")]
    for file in (*pages, *code):
        for module in FRAMEWORK.findall(file.read_text(encoding="utf-8")):
            yield str(file.relative_to(ROOT)), module


@pytest.mark.parametrize("module", STABLE)
def test_a_stable_module_exists_and_says_which_names_are_public(module: str) -> None:
    package = importlib.import_module(module.removesuffix(".*"))
    if module.endswith(".*"):
        names = [file.stem for file in Path(str(package.__file__)).parent.glob("*.py") if file.stem != "__init__"]
        for name in names:
            assert importlib.import_module(f"{package.__name__}.{name}").__all__
    elif not module.startswith("codex_lib_"):
        assert package.__all__


def test_whatever_the_docs_the_skeleton_and_contributed_plugins_import_is_stable() -> None:
    assert {place: module for place, module in used() if not is_stable(module)} == {}


def test_the_number_of_the_page_is_the_number_of_the_code(tmp_path: Path) -> None:
    assert f"The version of this release is {PLUGIN_API}." in PAGE
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    file = tmp_path / "words.py"
    file.write_text(example)
    (report,) = load_registry({}, entry_points=(), extra_plugins=[file]).reports
    assert (report.status, report.problems) == ("loaded", ())
    file.write_text(example.replace(f"PLUGIN_API = {PLUGIN_API}", "PLUGIN_API = 99"))
    (report,) = load_registry({}, entry_points=(), extra_plugins=[file]).reports
    assert "is written for version 99 of the plugin API" in report.error
