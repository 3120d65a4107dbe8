"""Hook ``codex_requires``: the plugins that a plugin requires, with versions."""

from __future__ import annotations

import pytest

from codex_framework import __version__, hookimpl
from codex_framework.loader.registry import load_registry


def test_codex_requires_example_works_with_the_bundled_plugin(example):
    registry = load_registry({}, extra_plugins=[example("codex_requires")])
    assert registry.tools["careful"].plugin == "example_of_codex_requires"
    assert registry.warnings == ()


def test_codex_requires_example_is_left_out_without_it(example):
    registry = load_registry({}, entry_points=(), extra_plugins=[example("codex_requires")])
    assert "careful" not in registry.tools
    assert "it requires plugin 'execpolicy', which is not installed" in registry.warnings[0]


def test_codex_requires_is_deprecated_and_the_warning_has_the_place_and_the_new_way(tmp_path):
    file = tmp_path / "old.py"
    file.write_text("from codex_framework import hookimpl\n\n\n@hookimpl\ndef codex_requires():\n    return []\n")
    with pytest.warns(DeprecationWarning, match="codex_requires is deprecated.*Component.requires") as caught:
        registry = load_registry({}, entry_points=(), extra_plugins=[file])
    assert [(warning.filename, warning.lineno) for warning in caught] == [(str(file), 4)]
    assert registry.warnings == ()
    assert registry.reports[0].status == "loaded"


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_codex_requires_is_a_problem_of_its_plugin_where_warnings_are_errors(example):
    registry = load_registry({}, extra_plugins=[example("codex_requires")])
    assert "codex_requires is deprecated" in registry.warnings[0]
    assert "careful" not in registry.tools


@pytest.mark.parametrize(
    ("wanted", "runs"), [("codex-framework>=2", False), ("codex_framework", True), ("codex-framework>=0.1", True)]
)
def test_codex_requires_can_name_the_framework_itself(wanted, runs):
    class Needy:
        @hookimpl
        def codex_requires(self):
            return [wanted]

    (report,) = load_registry({}, entry_points=(), extra_plugins=[Needy()]).reports
    if runs:
        assert report.problems == ()
    else:
        assert report.problems[0].fact == f"it requires codex-framework >=2, but version {__version__} is running"
        assert "pip install 'codex-framework>=2'" in report.hint


def test_codex_requires_decides_the_order_in_which_hooks_are_called():
    asked = []

    def plugin(name, *requires):
        class Plugin:
            @hookimpl
            def codex_requires(self):
                return requires

            @hookimpl
            def codex_tools(self):
                asked.append(name)
                return []

        Plugin.__name__ = name
        return Plugin()

    registry = load_registry({}, entry_points=(), extra_plugins=[plugin("a", "b"), plugin("b", "c"), plugin("c")])
    assert registry.warnings == ()
    assert asked == ["c", "b", "a"]
