"""Names in the configuration that match nothing are told, with the nearest name."""

from __future__ import annotations

import pytest

from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry


def registry(tmp_path, text, **more):
    (tmp_path / "config.toml").write_text(text)
    config = load_config(cwd=tmp_path, environ={}, codex_home=tmp_path, **more)
    return load_registry(config)


NOTES = {
    "a disabled plugin": (
        "[framework.plugins]\n\ndisabled = ['shell', 'quux']",
        "the configuration names the plugin 'quux', which is not installed",
        "Remove it, or install the package that provides the plugin.",
        3,
    ),
    "a preferred plugin": (
        "[framework]\nplugins.prefer = ['quux']",
        "the configuration names the plugin 'quux', which is not installed",
        "Remove it, or install the package that provides the plugin.",
        2,
    ),
    "a table": (
        "[framework.plugins.quux]\nx = 1",
        "the configuration has settings for the plugin 'quux', which is not installed",
        "Remove it, or install the package that provides the plugin.",
        1,
    ),
    "a thread store": (
        "[framework]\nthread_store = 'rolout'",
        "the configuration chooses the thread store 'rolout', which no plugin offers",
        "Did you mean 'rollout'?",
        2,
    ),
    "a compactor": (
        "[framework]\ncompactor = 'quux'",
        "the configuration chooses the compactor 'quux', which no plugin offers",
        "Choose one of: summary.",
        2,
    ),
    "a sandbox": (
        "[framework]\nsandbox = 'landlok'",
        "the configuration chooses the sandbox 'landlok', which no plugin offers",
        "Did you mean 'landlock'?",
        2,
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_a_name_that_means_nothing_is_told_with_file_and_line(tmp_path, case):
    text, fact, hint, line = NOTES[case]
    found = registry(tmp_path, text)
    (note,) = found.notes
    assert (note.fact, note.hint) == (fact, hint)
    assert (note.path, note.line) == (str(tmp_path / "config.toml"), line)
    assert found.warnings == (f"{note.text}. {hint}",)


NEAR = {
    "a table": (
        "[framework.plugins.gardian]\nmodel = 'm'",
        "guardian",
        "the configuration has settings for the plugin 'gardian'",
    ),
    "a disabled plugin": (
        "[framework.plugins]\ndisabled = ['shel']",
        "shell",
        "the configuration names the plugin 'shel'",
    ),
}


@pytest.mark.parametrize("case", NEAR)
def test_a_slip_is_told_to_the_plugin_that_is_meant(tmp_path, case):
    text, name, fact = NEAR[case]
    found = registry(tmp_path, text)
    (report,) = [one for one in found.reports_with_commands if one.problems]
    assert (report.name, report.status) == (name, "loaded")
    assert report.problems[0].fact.startswith(fact)
    assert report.problems[0].hint == f"Did you mean {name!r}?"
    assert found.notes == ()


def test_what_options_of_the_command_line_set_is_not_told(tmp_path):
    found = registry(tmp_path, "", flags={"framework.plugins.absent.ignore_rules": True})
    assert found.warnings == ()


def test_settings_of_a_disabled_plugin_are_in_order(tmp_path):
    text = "[framework.plugins]\ndisabled = ['guardian']\n[framework.plugins.guardian]\nmodel = 'm'"
    assert registry(tmp_path, text).warnings == ()
