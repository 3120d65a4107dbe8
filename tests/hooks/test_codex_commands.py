"""Hook ``codex_commands``: subcommands of the CLI."""

from __future__ import annotations

import click
from click.testing import CliRunner

from codex_framework import hookimpl


def test_codex_commands_example_greets(example, registry_of):
    command = registry_of(example("codex_commands")).commands["hello"].item
    done = CliRunner().invoke(command, ["reader"])
    assert (done.exit_code, done.output) == (0, "Hello reader\n")


def test_codex_commands_are_asked_for_only_when_they_are_needed(registry_of):
    asked = []

    class Plugin:
        @hookimpl
        def codex_commands(self):
            asked.append("commands")
            return [click.Command("wave")]

    registry = registry_of(Plugin())
    assert asked == []
    (report,) = registry.reports
    assert (report.status, report.contributes) == ("loaded", {})
    assert list(registry.commands) == ["wave"]
    (report,) = registry.reports_with_commands
    assert report.contributes == {"commands": ("wave",)}
    assert registry.commands["wave"].plugin == "Plugin"
    assert asked == ["commands"]
