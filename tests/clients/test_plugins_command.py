"""``codex-framework plugins``: the table, one plugin, JSON, times, and a new plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from codex_framework import CodexError
from codex_framework.cli.plugins import command
from codex_framework.toolkit.installing import install_command

PLUGIN = """
import click
from codex_framework import hookimpl, tool

@tool
def acme_look(path: str) -> str:
    "Look."
    return path

@hookimpl
def codex_tools():
    return [acme_look, 7]

@hookimpl
def codex_commands():
    return [click.Command("acme")]
"""


@pytest.fixture
def invoke(tmp_path: Path, codex_home: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command where two plugins are installed beside the bundled ones: one in part, one not at all."""
    site = tmp_path / "site"
    for name, source in (("half", PLUGIN), ("none", "import nowhere_to_be_found\n")):
        info = site / f"acme_{name}-1.2.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(f"Name: acme-{name}\nVersion: 1.2\nProvides-Extra: none\n")
        info.joinpath("entry_points.txt").write_text(
            f"[codex_framework]\n{name} = acme_{name}_{tmp_path.name}\n".replace("-", "_")
        )
        site.joinpath(f"acme_{name}_{tmp_path.name}.py".replace("-", "_")).write_text(source)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("CODEX_HOME", str(codex_home))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(command, arguments)

    return run


def test_the_table_shows_name_origin_status_contributions_and_cures(invoke):
    done = invoke()
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].split() == ["NAME", "FROM", "STATUS", "CONTRIBUTES"]
    rows = {line.split()[0]: line.split() for line in lines[1:] if not line.startswith(" ")}
    assert rows["unified_exec"][1] == "codex-framework"
    assert rows["unified_exec"][3:7] == ["loaded", "tools:", "exec_command,", "write_stdin;"]
    assert rows["unified_exec"][7] == "ops:"
    assert rows["half"] == ["half", "acme-half", "1.2", "partial", "tools:", "acme_look;", "commands:", "acme"]
    assert rows["none"] == ["none", "acme-none", "1.2", "failed"]
    after = lines[lines.index(next(line for line in lines if line.startswith("none "))) + 1 :]
    assert after[:2] == [
        "    it needs the package 'nowhere_to_be_found', which is not installed",
        f"    -> {install_command('acme-none[none]')}",
    ]


def test_json_has_all_of_it(invoke):
    done = invoke("--json")
    (none,) = [plugin for plugin in json.loads(done.output) if plugin["name"] == "none"]
    assert none.pop("load_ms") > 0
    assert none.pop("module").startswith("acme_none_")
    assert none == {
        "name": "none",
        "distribution": "acme-none",
        "version": "1.2",
        "file": None,
        "bundled": False,
        "status": "failed",
        "requires": [],
        "contributes": {},
        "settings": [],
        "problems": [
            {
                "fact": "it needs the package 'nowhere_to_be_found', which is not installed",
                "hint": install_command("acme-none[none]"),
                "slug": "missing-extra",
                "path": None,
                "line": None,
            }
        ],
    }


def test_one_plugin_is_shown_with_everything_that_is_wrong(invoke):
    done = invoke("show", "half")
    assert done.exit_code == 0
    shown = [line.split(maxsplit=1) for line in done.output.splitlines()]
    assert shown[0] == ["half"]
    assert ["from", "acme-half 1.2"] in shown
    assert ["status", "partial"] in shown
    assert ["tools", "acme_look"] in shown
    assert ["commands", "acme"] in shown
    (problem,) = (text for word, text in shown[1:] if word == "problem")
    assert problem.startswith(
        "its tool of type int is ignored: it has no attribute spec; it has no async def run(self, call, context) ("
    )
    assert json.loads(invoke("show", "half", "--json").output)["status"] == "partial"


def test_a_plugin_that_is_not_there_is_an_error_with_the_nearest_name(invoke):
    done = invoke("show", "hlaf")
    assert isinstance(done.exception, CodexError)
    assert (done.exception.fact, done.exception.hint) == ("no plugin is called 'hlaf'", "Did you mean half?")


def test_a_plugin_disabled_in_the_configuration_is_shown_as_such(invoke, codex_home):
    codex_home.joinpath("config.toml").write_text('[framework]\nplugins.disabled = ["half"]\n')
    assert json.loads(invoke("show", "half", "--json").output)["status"] == "disabled"


def test_times_are_sorted_with_their_sum_at_the_end(invoke):
    lines = [line.split() for line in invoke("time").output.splitlines()]
    times = [float(milliseconds) for _, milliseconds, _ in lines]
    assert lines[-1][0] == "all"
    assert times[:-1] == sorted(times[:-1], reverse=True)
    assert set(json.loads(invoke("time", "--json").output)) == {name for name, *_ in lines[:-1]}


@pytest.mark.parametrize("name", ["mcp", "mcp-server"])
def test_a_new_plugin_does_not_get_the_name_of_a_bundled_one(invoke, tmp_path, name):
    done = invoke("new", name, "--path", str(tmp_path))
    assert isinstance(done.exception, CodexError)
    assert str(done.exception) == f"{name!r} is the name of a bundled plugin"
    assert not list(tmp_path.glob("codex_contrib_*"))


def test_a_new_plugin_is_written_where_it_is_wanted(invoke, tmp_path):
    done = invoke("new", "mine", "--path", str(tmp_path))
    folder = tmp_path / "codex_contrib_mine"
    assert done.exit_code == 0
    assert done.output.splitlines()[0] == f"Created {folder}. Next steps:"
    assert folder.joinpath("src/codex_contrib_mine/words.py").is_file()
