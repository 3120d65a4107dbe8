"""What people see on a terminal: tables that fit, colours only where they are wanted, help that can be read, and completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from codex_framework.cli.commands import root
from codex_framework.testing.replies import say
from codex_framework.toolkit.lazy_command import HELP_GROUPS, LazyCommand, help_group_of
from tests.clients.conftest import COMMAND
from tests.clients.terminal import on_a_terminal

LISTS = (
    "plugins",
    "plugins time",
    "models",
    "features list",
    "config path",
    "hooks list",
    "mcp list",
    "prompts list",
    "skills list",
    "sessions list",
    "usage",
)


@pytest.fixture
def furnished(cli: Any) -> Any:
    """A home with a hook, a server, a prompt, a skill and a session."""
    hook = 'hooks.PreToolUse = [{ hooks = [{ type = "command", command = "python3 -c pass --with several words" }] }]'
    server = (
        'mcp_servers.files = { command = "true", args = ["-y", "@example/a-server-with-a-long-name", "/some/folder"] }'
    )
    cli.serve(say("Done."), more=f"{hook}\n{server}")
    assert cli.run("hooks", "trust", "--yes").status == 0
    assert cli.exec("Sort the many long lists of things in this folder, and say how you did it").status == 0
    (cli.home / "prompts").mkdir()
    (cli.home / "prompts" / "tidy.md").write_text(
        "---\ndescription: Make the code of this folder easy to read\n---\nTidy $1\n"
    )
    skill = cli.home / "skills" / "sorting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: sorting\ndescription: Sorts long lists of things in many ways\n---\nSort.\n"
    )
    return cli


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_what_commands_list_fits_the_terminal(furnished: Any, columns: int) -> None:
    for command in LISTS:
        piped = furnished.run(*command.split())
        shown = on_a_terminal(furnished, *command.split(), COLUMNS=str(columns))
        remarks = piped.err.splitlines()
        check_layout("\n".join(line for line in shown.splitlines() if line not in remarks), piped.out, columns)


def test_the_list_of_plugins_fits_the_terminal(cli: Any) -> None:
    check_layout(on_a_terminal(cli, "plugins", COLUMNS="80"), cli.run("plugins").out, 80)


def check_layout(shown: str, piped: str, columns: int) -> None:
    """Check that no line is too long because of more than one word, and that no word was broken."""
    for line in shown.splitlines():
        assert len(line) <= columns or len(line.split()) == 1, line
    titles = {f"{word}:" for word in piped.partition("\n")[0].split()}
    for word in set(shown.split()) - set(piped.split()) - titles:
        assert word == "…" or word.startswith("…/") or word.endswith(("ms", "ago")) or word[0].isdigit(), word


@pytest.mark.parametrize("unwanted", [{"NO_COLOR": "1"}, {"NO_COLOR": "", "TERM": "dumb"}])
@pytest.mark.parametrize("command", ["plugins", pytest.param("demo --no-sandbox", marks=pytest.mark.slow)])
def test_colours_are_for_those_who_want_them(cli: Any, command: str, unwanted: dict[str, str]) -> None:
    del cli.env["NO_COLOR"]
    assert "\x1b[" not in on_a_terminal(cli, *command.split(), **unwanted)
    assert "\x1b[" not in cli.run(*command.split()).out


@pytest.mark.parametrize("command", ["plugins", pytest.param("demo --no-sandbox", marks=pytest.mark.slow)])
def test_a_terminal_has_colours(cli: Any, command: str) -> None:
    del cli.env["NO_COLOR"]
    assert "\x1b[3" in on_a_terminal(cli, *command.split(), TERM="xterm")


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Group]]:
    """Yield a group and the groups below it, with their contexts."""
    yield context, group
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        whole = found.command if isinstance(found, LazyCommand) else found
        if isinstance(whole, click.Group):
            yield from commands(whole, click.Context(whole, context, info_name=name))


def test_help_shows_whole_sentences_at_80_columns() -> None:
    top = click.Context(root, info_name="codex-framework", terminal_width=80, help_option_names=["-h", "--help"])
    groups = list(commands(root, top))
    assert {group.name for _, group in groups} >= {"mcp", "sandbox", "skills", "sessions", "plugins"}
    for context, group in groups:
        page = group.get_help(context)
        assert all(len(line) <= 80 for line in page.splitlines() if "Documentation:" not in line), page
        assert [line for line in page.splitlines() if line.endswith("...") and "Usage" not in line] == [], page


def test_help_begins_with_what_to_type_first(cli: Any) -> None:
    page = cli.run("--help").out
    assert (
        "\n    codex-framework demo                    watch an agent, without a key\n" in page.partition("Run:\n")[0]
    )
    assert "\\b" not in page


def test_every_bundled_command_states_its_heading() -> None:
    top = click.Context(root, info_name="codex-framework", help_option_names=["-h", "--help"])
    found = {name: help_group_of(root.get_command(top, name)) for name in root.list_commands(top)}
    assert {name for name, heading in found.items() if heading not in HELP_GROUPS} == set()
    assert found["exec"] == found["review"] == "Run"
    assert found["mcp"] == "Configure"
    assert found["doctor"] == found["usage"] == "Inspect"


def test_a_plugin_puts_its_commands_below_headings(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "pets.py"
    file.write_text(
        "import click\nfrom codex_framework import LazyCommand, hookimpl\n"
        "from codex_framework.toolkit.lazy_command import help_group\n"
        "@help_group('Pets')\n@click.command('feed')\ndef feed():\n    'Feed the pets of this folder.'\n"
        "@click.command('stroke')\ndef stroke():\n    'Stroke the pets.'\n"
        "@hookimpl\ndef codex_commands(plugin):\n"
        "    return [feed, stroke, LazyCommand('vet', 'Call the vet.', 'pets:vet', group='Inspect')]\n"
    )
    page = cli.run("--plugin", str(file), "--help").out
    paragraphs = {part.partition(":\n")[0]: part for part in page.split("\n\n")}
    assert "  vet         Call the vet." in paragraphs["Inspect"]
    assert "  feed        Feed the pets of this folder." in paragraphs["Pets"]
    assert "  stroke      Stroke the pets." in paragraphs["More"]
    assert re.findall(r"^(\w+):$", page, re.MULTILINE)[:-1] == [
        "Run",
        "Sessions",
        "Configure",
        "Inspect",
        "Serve",
        "Extend",
        "Help",
        "Pets",
        "More",
    ]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["version"], "codex-framework "),
        (["help"], "Usage: codex-framework "),
        (["help", "exec"], "Usage: codex-framework exec "),
        (["help", "mcp", "list"], "Usage: codex-framework mcp list "),
        (["help", "resume"], "Usage: codex-framework resume "),
        (["fork", "--help"], "Usage: codex-framework fork "),
        (["update", "--help"], "Print the command that updates"),
        (["init", "--help"], "Let the model write an AGENTS.md"),
    ],
)
def test_the_first_questions_get_an_answer(cli: Any, words: list[str], answer: str) -> None:
    ran = cli.run(*words)
    assert ran.status == 0
    assert answer in ran.out
    assert ran.err == ""


def test_help_for_an_unknown_command_is_no_task(cli: Any) -> None:
    ran = cli.run("help", "plugns")
    assert ran.status == 2
    assert "Did you mean: codex-framework plugins\n" in ran.err
    assert "everything --help" not in cli.run("help", "everything").err


def test_init_lets_the_model_write_the_file_once(cli: Any) -> None:
    server = cli.serve(say("Written."))
    ran = cli.run("init", "-m", "o3")
    assert ran.status == 0, ran.err
    assert ran.out == "Written.\n"
    (request,) = server.requests
    assert request.json["model"] == "o3"
    assert "Write an AGENTS.md for this project" in json.dumps(request.json["input"])
    (cli.work / "AGENTS.md").write_text("Mine.\n")
    ran = cli.run("init")
    assert (ran.status, ran.out) == (0, "AGENTS.md already exists here. It has not been changed.\n")
    assert len(server.requests) == 1


SHELLS = {
    "bash": (
        ".bashrc",
        "COMP_WORDS=({0} plugins sh); COMP_CWORD=2\n$(complete -p {0} | grep -o '_[a-z_]*_completion') {0}\necho $COMPREPLY",
    ),
    "zsh": (".zshrc", 'echo "$_comps[{0}]"'),
    "fish": ("", 'complete -C "{0} plugins sh"'),
}
"""The file that a shell reads at its start, and what asks it for completions."""


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_installed_once_by_one_command(cli: Any, shell: str) -> None:
    start = cli.home.parent / SHELLS[shell][0]
    if SHELLS[shell][0]:
        start.write_text("# mine, without an end of line")
    for _ in range(2):
        ran = cli.run("completion", "--install", env=cli.env | {"SHELL": f"/usr/bin/{shell}"})
        assert ran.status == 0, ran.err
        assert ran.out.startswith(f"Completion for {shell} is installed: {cli.home.parent}/")
    if SHELLS[shell][0]:
        first, second = start.read_text().splitlines()
        assert first == "# mine, without an end of line"
        assert second.endswith(f"completion.{shell}")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["codex-framework", "cxf"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_shell_completes(cli: Any, shell: str, program: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    assert cli.run("completion", shell, "--install").status == 0
    env = cli.env | {"PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm"}
    argv = [found, "-i", "-c", SHELLS[shell][1].format(program)]
    done = subprocess.run(argv, env=env, cwd=cli.work, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split()[:1] == [f"_{program.replace('-', '_')}_completion" if shell == "zsh" else "show"], (
        done.stderr
    )


def test_completion_says_which_shells_there_are(cli: Any) -> None:
    ran = cli.run("completion", env=cli.env | {"SHELL": "/bin/elvish"})
    assert ran.status == 2
    assert "Name your shell: bash, fish, zsh." in ran.err
    (cli.home.parent / ".bashrc").mkdir()
    ran = cli.run("completion", "bash", "--install")
    assert ran.status == 1
    assert f"{cli.home.parent}/.bashrc" in ran.err
    assert 'eval "$(codex-framework completion bash)"' in ran.err
