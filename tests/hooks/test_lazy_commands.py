"""``LazyCommand``: a subcommand whose module is imported when it is used."""

from __future__ import annotations

import sys

import click
import pytest
from click.testing import CliRunner

from codex_framework import LazyCommand, hookimpl
from codex_framework.cli.commands import run_command
from codex_framework.loader.registry import load_registry
from codex_framework.testing import ContractViolation, check_plugin

MODULE = '''
import click

@click.group("wave")
@click.option("--far", is_flag=True)
def wave(far):
    """Wave to people."""

@wave.command("to")
@click.argument("name")
@click.pass_obj
def to(obj, name):
    click.echo(f"{obj} waves to {name}")

nothing = 3
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"lazy_wave_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def run(command, *words):
    done = CliRunner().invoke(command, words)
    return done.exit_code, done.output


def test_its_module_is_imported_when_it_runs_and_gets_the_object(module):
    command = LazyCommand("wave", "Wave.", f"{module}:wave", obj="somebody")
    assert (command.name, command.get_short_help_str()) == ("wave", "Wave.")
    assert module not in sys.modules
    assert run(command, "to", "you") == (0, "somebody waves to you\n")


def test_its_help_and_options_are_those_of_the_command(module):
    command = LazyCommand("wave", "Wave.", f"{module}:wave")
    code, output = run(command, "--help")
    assert code == 0
    assert "Wave to people." in output
    assert next(each.opts for each in command.get_params(click.Context(command))) == ["--far"]


def test_the_list_of_commands_does_without_the_module(module):
    @click.group()
    def root():
        pass

    root.add_command(LazyCommand("wave", "Wave to somebody.", f"{module}:wave"))
    code, output = run(root, "--help")
    assert code == 0
    assert "Wave to somebody." in output
    assert module not in sys.modules
    assert run(root, "wave", "to", "you")[0] == 0


@pytest.mark.parametrize(
    ("location", "fact"),
    [
        ("no_such_module_of_waves:wave", "cannot be imported from no_such_module_of_waves:wave: ModuleNotFoundError"),
        ("{module}:gone", "cannot be imported from {module}:gone: AttributeError"),
        ("{module}:nothing", "{module}:nothing of the command 'wave' is no click command but int"),
        ("{module}", "cannot be imported from {module}: AttributeError"),
    ],
)
def test_what_is_not_there_is_an_error_with_the_location(module, location, fact):
    command = LazyCommand("wave", "Wave.", location.format(module=module))
    error = CliRunner().invoke(command, []).exception
    assert type(error).__name__ == "CodexError"
    assert fact.format(module=module) in str(error)


def test_check_plugin_finds_a_command_of_another_name(module):
    class Plugin:
        @hookimpl
        def codex_commands(self):
            return [LazyCommand("greet", "Greet.", f"{module}:wave")]

    with pytest.raises(ContractViolation, match=r"the LazyCommand is called 'greet', and the command .* 'wave'"):
        check_plugin(Plugin())


def test_every_bundled_command_is_described_as_in_its_own_help():
    commands = [offer.item for offer in load_registry({}).commands.values()]
    lazy = [command for command in commands if isinstance(command, LazyCommand)]
    assert len(lazy) >= 13
    for command in lazy:
        assert command.command.get_short_help_str(200).startswith(command.get_short_help_str(200).rstrip(".")), (
            command.name
        )


ONCE = """
import click
from codex_framework import hookimpl

@click.command("wave")
def wave():
    click.echo("waved")

@hookimpl
def codex_commands():
    with open("asked", "a") as file:
        file.write("once ")
    return [wave]
"""


def test_plugins_are_loaded_once_for_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "waving.py"
    file.write_text(ONCE)
    assert run_command(["wave"], [str(file)]) == 0
    assert capsys.readouterr().out == "waved\n"
    assert (tmp_path / "asked").read_text() == "once "
