"""The hook reference equals what the code renders; each hook has an example that runs and a test that names it."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import pytest

from codex_framework.contract.hookspecs import DECLARATIONS
from codex_framework.loader.hook_checks import hooks
from codex_framework.loader.registry import ROLES, load_registry

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def render():
    spec = importlib.util.spec_from_file_location("docs_render", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_equal_what_the_code_renders(render):
    stale = [
        name for name, page in render.PAGES.items() if (ROOT / "docs" / name).read_text(encoding="utf-8") != page()
    ]
    assert stale == [], "run `python docs/render.py`"


@pytest.mark.parametrize("hook", hooks())
def test_the_example_of_a_hook_is_a_plugin_that_loads(hook, render):
    module = types.ModuleType(f"example_{hook}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(render.example(hooks()[hook]), f"<example of {hook}>", "exec", dont_inherit=True), vars(module))
        reports = load_registry({}, extra_plugins=[module]).command_table.reports
    finally:
        del sys.modules[module.__name__]
    (report,) = [report for report in reports if report.name == module.__name__]
    assert (report.status, report.problems) == ("loaded", ())
    if hooks()[hook] in DECLARATIONS:
        declared = {"settings": report.settings, "requires": report.requires, **report.contributes}
        assert declared[ROLES[hook]]
    else:
        assert list(report.contributes) == [ROLES[hook]]
        assert len(report.contributes[ROLES[hook]]) == 1


@pytest.mark.parametrize("hook", hooks())
def test_some_test_is_about_the_hook(hook):
    file = ROOT / "tests" / "hooks" / f"test_{hook}.py"
    assert f"def test_{hook}_" in file.read_text(encoding="utf-8")


def test_every_hook_has_a_role_in_the_registry():
    assert list(ROLES) == list(hooks())


@pytest.mark.parametrize("hook", hooks())
def test_the_page_says_of_each_hook_what_it_offers_and_shows_its_example(hook, render):
    page = (ROOT / "docs" / "reference" / "hooks.md").read_text(encoding="utf-8")
    assert f"\n## {hook}\n" in page
    assert render.example(hooks()[hook]) in page
