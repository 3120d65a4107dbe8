"""The hook reference equals what the code renders; each hook has an example that runs and a test that names it."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest

from codex_framework.contract.hookspecs import DECLARATIONS, OFFERING
from codex_framework.loader.hook_checks import HOOKS
from codex_framework.loader.registry import load_registry

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


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_a_hook_is_a_plugin_that_loads(hook, render):
    module = types.ModuleType(f"example_{hook}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(render.example(HOOKS[hook]), f"<example of {hook}>", "exec", dont_inherit=True), vars(module))
        reports = load_registry({}, extra_plugins=[module]).reports_with_commands
    finally:
        del sys.modules[module.__name__]
    (report,) = [report for report in reports if report.name == module.__name__]
    assert (report.status, report.problems) == ("loaded", ())
    if HOOKS[hook] in DECLARATIONS:
        declared = {"settings": report.settings, "requires": report.requires, **report.contributes}
        assert declared["hooks" if hook == "codex_roles" else hook.removeprefix("codex_")]
    else:
        (plural,) = [offering.plural for offering in OFFERING if offering.name == hook]
        assert list(report.contributes) == [plural]
        assert len(report.contributes[plural]) == 1


@pytest.mark.parametrize("hook", HOOKS)
def test_some_test_is_about_the_hook(hook):
    file = ROOT / "tests" / "hooks" / f"test_{hook}.py"
    assert f"def test_{hook}_" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", OFFERING, ids=lambda hook: hook.name)
def test_a_hook_returns_objects_of_its_role_and_the_registry_has_them(hook):
    returned = hook.spec.__annotations__["return"]
    expected = hook.role.__name__ if hook.role is not None else "click.Command"
    assert re.fullmatch(rf"Iterable\[{re.escape(expected)}(\[Any\])?\]", returned)
    assert hasattr(load_registry({}, entry_points=()), hook.plural)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_page_says_of_each_hook_what_it_offers_and_shows_its_example(hook, render):
    page = (ROOT / "docs" / "reference" / "hooks.md").read_text(encoding="utf-8")
    assert f"\n## {hook}\n" in page
    assert render.example(HOOKS[hook]) in page
