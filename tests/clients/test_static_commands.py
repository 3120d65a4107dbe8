"""Commands that are entry points of the group ``codex_framework.commands``."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry

PROGRAM = '''
import sys

print("imported", file=sys.stderr)

def main(arguments):
    """Watch a folder.

    The second paragraph is not for the list.
    """
    if arguments == ["fail"]:
        from codex_framework import CodexError
        raise CodexError("there is nothing to watch", hint="Name a folder.")
    print(arguments, *sorted(name for name in sys.modules if name in ("click", "codex_framework.kernel", "pluggy")))
    return 7 if arguments == ["seven"] else None
'''
CLICK = '''
import click

@click.command()
@click.option("--depth", type=int)
@click.pass_context
def main(context, depth):
    """Dig."""
    click.echo(f"{depth} {[str(file) for file in context.find_root().obj]}")
'''
HOOK = """
import click
from codex_framework import hookimpl

@hookimpl
def codex_commands():
    return [click.Command("watch"), click.Command("sandbox")]
"""


@pytest.fixture
def install(cli, tmp_path):
    """Install a distribution with one module and its entry points."""
    site = tmp_path / "site"
    site.mkdir()
    cli.env["PYTHONPATH"] = str(site)

    def install(name: str, source: str, entry_points: str) -> None:
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        (site / f"{name}.py").write_text(source)

    return install


@pytest.fixture
def watch(install):
    install("watcher", PROGRAM, "[codex_framework.commands]\nwatch = watcher:main\n")


def break_configuration(home: Path) -> None:
    (home / "config.toml").write_text("model = \n")


@pytest.mark.usefixtures("watch")
def test_a_function_gets_the_arguments_and_returns_the_exit_status_without_click_and_plugins(cli):
    assert (cli.run_installed("watch", "a", "--help").out, cli.run_installed("watch", "seven").status) == (
        "['a', '--help']\n",
        7,
    )


@pytest.mark.usefixtures("watch")
def test_it_works_with_an_invalid_configuration(cli):
    break_configuration(cli.home)
    ran = cli.run_installed("watch", "a")
    assert (ran.status, ran.out) == (0, "['a']\n")


@pytest.mark.usefixtures("watch")
def test_plugin_files_named_before_it_are_its_first_arguments(cli):
    assert cli.run_installed("--plugin", "x.py", "watch", "a").out == "['--plugin=x.py', 'a']\n"


@pytest.mark.usefixtures("watch")
def test_its_errors_are_printed_like_ours(cli):
    ran = cli.run("watch", "fail")
    assert ran.status == 1
    assert ran.err.endswith("Error: there is nothing to watch\nName a folder.\n")


@pytest.mark.usefixtures("watch")
def test_the_list_of_commands_shows_the_first_line_of_its_docstring(cli):
    shown = cli.run("--help").out
    assert "  watch       Watch a folder.\n" in shown
    assert "second paragraph" not in shown


@pytest.mark.usefixtures("watch")
def test_disabled_plugins_do_not_hide_it(cli):
    (cli.home / "config.toml").write_text('[framework.plugins]\ndisabled = ["watch", "sandbox", "watcher"]\n')
    assert cli.run("watch").status == 0
    assert cli.run("sandbox", "--help").status == 0


def test_an_option_with_another_meaning_does_not_get_what_stands_before_the_command(cli, install):
    source = CLICK.replace('"--depth", type=int', '"-p", "--port", "depth"')
    install("digger", source, "[codex_framework.commands]\ndig = digger:main\n")
    assert cli.run("-p", "prof", "dig").out == "None []\n"
    assert cli.run("-p", "prof", "dig", "-p", "3").out == "3 []\n"


def test_a_click_command_has_its_options_and_the_plugin_files(cli, install):
    install("digger", CLICK, "[codex_framework.commands]\ndig = digger:main\n")
    assert cli.run("--plugin", "x.py", "dig", "--depth", "3").out == "3 ['x.py']\n"
    assert "--depth INTEGER" in cli.run("dig", "--help").out


def test_built_in_and_bundled_names_cannot_be_taken(cli, install):
    taken = ("config", "demo", "e", "exec", "plugins", "resume", "sandbox", "trust")
    lines = "".join(f"{name} = aaa:main\n" for name in taken)
    install("aaa", PROGRAM, f"[codex_framework.commands]\n{lines}")
    assert "imported" not in cli.run("config", "--help").err
    assert "Run COMMAND in the sandbox" in cli.run("sandbox", "--help").out
    shown = cli.run("--help")
    for name in taken:
        assert f"warning: the command '{name}' of aaa 1.0 cannot be used: its name is taken\n" in shown.err
    assert shown.out.count("  sandbox  ") == 1


def test_commands_of_bundled_plugins_cannot_be_taken(cli, install):
    config = load_config(cwd=cli.home, environ={"CODEX_HOME": str(cli.home)})
    registry = load_registry(config)
    names = [*registry.commands, *(name for name, offer in registry.exec_commands.items() if offer.item.alone)]
    assert {"login", "review"} < set(names)
    lines = "".join(f"{name} = aaa:main\n" for name in names)
    install("aaa", PROGRAM, f"[codex_framework.commands]\n{lines}")
    assert "Usage: codex-framework login" in cli.run("login", "--help").out
    shown = cli.run("--help").err
    assert [
        name for name in names if f"the command '{name}' of aaa 1.0 cannot be used: its name is taken" not in shown
    ] == []


def test_only_we_can_reserve_names(cli, install):
    install("aaa", PROGRAM, "[codex_framework.reserved_commands]\nwatch = aaa:main\n")
    install("bbb", PROGRAM, "[codex_framework.commands]\nwatch = bbb:main\n")
    shown = cli.run("--help")
    assert "  watch  " in shown.out
    assert "cannot be used" not in shown.err


def test_of_two_packages_the_first_by_name_has_the_command(cli, install):
    install("beta", PROGRAM.replace("Watch a", "Beta's"), "[codex_framework.commands]\nwatch = beta:main\n")
    install("alpha", PROGRAM.replace("Watch a", "Alpha's"), "[codex_framework.commands]\nwatch = alpha:main\n")
    shown = cli.run("--help")
    assert "Alpha's folder" in shown.out
    assert "warning: the command 'watch' of beta 1.0 cannot be used: its name is taken" in shown.err


@pytest.mark.usefixtures("watch")
def test_it_wins_over_the_command_of_a_hook_which_is_reported(cli, install):
    install("hooked", HOOK, "[codex_framework]\nhooked = hooked\n")
    assert cli.run_installed("watch").out == "[]\n"
    shown = cli.run("plugins", "show", "hooked").out
    assert "the command 'watch' is one of watcher 1.0; give yours another name" in shown
    assert "the command 'sandbox' is one of codex-framework 0.1.0; give yours another name" in shown


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nowhere_at_all", "nowhere_at_all"),
        ("raise RuntimeError('out of order')", "out of order"),
        ("raise SystemExit(3)", "sys.exit(3)"),
        ("main = 3", "it is not callable"),
    ],
)
def test_one_that_cannot_be_loaded_says_so_and_leaves_the_others_alone(cli, install, source, reason):
    install("broken", source, "[codex_framework.commands]\nbroken = broken:main\n")
    ran = cli.run("broken")
    assert ran.status == 1
    assert "Error: the command 'broken' of broken 1.0 cannot be used: " in ran.err
    assert reason in ran.err
    assert ran.error.endswith("\nReinstall broken, or report this to its author.\n")
    shown = cli.run("--help")
    assert shown.status == 0
    assert "the command 'broken' of broken 1.0 cannot be used" in " ".join(shown.out.split())
    assert "  sandbox  " in shown.out


@pytest.mark.usefixtures("watch")
def test_shells_complete_its_name(cli):
    cli.env |= {"_CODEX_FRAMEWORK_COMPLETE": "bash_complete", "COMP_WORDS": "codex-framework w", "COMP_CWORD": "1"}
    assert "plain,watch\n" in cli.run().out


@pytest.mark.parametrize("text", ["model = \n", "framework = 3\n", '[framework.plugins]\ndisabled = "x"\n'])
@pytest.mark.parametrize("argv", [("plugins",), ("plugins", "show", "shell"), ("plugins", "doctor", "plan")])
def test_plugins_and_doctor_report_an_invalid_configuration_first_and_go_on_without_it(cli, text, argv):
    (cli.home / "config.toml").write_text(text)
    ran = cli.run(*argv)
    assert ran.status == 0
    assert ran.err.startswith(f"Error: {cli.home}/config.toml:")
    assert "The configuration is not used" in ran.err
    assert "plan" in ran.out or "shell" in ran.out


def test_a_configuration_whose_folder_is_missing_is_no_reason_not_to_list_plugins(cli):
    cli.env["CODEX_HOME"] = str(cli.home / "gone")
    ran = cli.run("plugins")
    assert (ran.status, "apply_patch" in ran.out) == (0, True)
