from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def greeting(cli: Any, tmp_path: Path) -> None:
    """An installed plugin with a command of its own."""
    site = tmp_path / "site"
    info = site / "greeting-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[codex_framework]\ngreeting = greeting_plugin\n")
    (site / "greeting_plugin.py").write_text(
        "import click\n"
        "from codex_framework import CodexError, hookimpl\n"
        "@click.command()\n"
        "@click.argument('name')\n"
        "def greet(name):\n"
        "    '''Greet somebody.'''\n"
        "    if name == 'nobody':\n"
        "        raise CodexError('there is nobody', hint='Name somebody.')\n"
        "    click.echo(f'Hello, {name}.')\n"
        "@hookimpl\n"
        "def codex_commands():\n"
        "    return [greet]\n"
    )
    cli.env["PYTHONPATH"] = str(site)


@pytest.mark.usefixtures("greeting")
def test_a_plugins_command_is_a_subcommand(cli: Any) -> None:
    ran = cli.run("greet", "world")
    assert (ran.status, ran.out, ran.err) == (0, "Hello, world.\n", "")
    assert "Greet somebody." in cli.run("--help").out


@pytest.mark.usefixtures("greeting")
def test_its_errors_are_printed_like_ours(cli: Any) -> None:
    ran = cli.run("greet", "nobody")
    assert (ran.status, ran.out, ran.err) == (1, "", "Error: there is nobody\nName somebody.\n")


def test_help_comes_even_where_the_configuration_is_broken(cli: Any) -> None:
    (cli.home / "config.toml").write_text("model = \n")
    ran = cli.run("--help")
    assert ran.status == 0
    assert "Run one turn" in ran.out
    assert "warning: the commands of plugins are not shown" in ran.err


def test_without_a_command_there_is_help(cli: Any) -> None:
    ran = cli.run()
    assert ran.status == 0
    assert ran.out.startswith("Usage: codex-framework [OPTIONS] [COMMAND]")


def test_a_command_that_is_missing_because_its_plugin_failed_is_answered_with_the_reason(cli: Any) -> None:
    (cli.home / "config.toml").write_text("[framework.plugins.usage]\nprices = 5\n")
    ran = cli.run("usage")
    assert (ran.status, ran.out) == (2, "")
    assert "Plugins that could not be loaded might have this command:\n  plugin 'usage' " in ran.err
    assert "config.toml, line 2). Fix the value." in ran.err
