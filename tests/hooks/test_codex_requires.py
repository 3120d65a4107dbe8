"""Hook ``codex_requires``: the plugins that a plugin requires, with versions."""

from __future__ import annotations

from codex_framework import hookimpl
from codex_framework.loader.registry import load_registry


def test_codex_requires_example_works_with_the_bundled_plugin(example):
    registry = load_registry({}, extra_plugins=[example("codex_requires")])
    assert registry.tools["careful"].plugin == "example_of_codex_requires"
    assert registry.warnings == ()


def test_codex_requires_example_is_left_out_without_it(example):
    registry = load_registry({}, entry_points=(), extra_plugins=[example("codex_requires")])
    assert "careful" not in registry.tools
    assert "it requires plugin 'execpolicy', which is not installed" in registry.warnings[0]


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
