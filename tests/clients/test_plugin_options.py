"""Options of ``exec`` that plugins add."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import say

PLUGIN = """
import json
from codex_framework import ExecOption, Observer, Value, hookimpl

class Settings(Value, kw_only=True):
    file: str = ""
    words: tuple[str, ...] = ()
    loud: bool = False
    level: str = ""

@hookimpl
def codex_settings():
    return Settings

@hookimpl
def codex_exec_options():
    return [
        ExecOption(name="log-to", setting="file", text="Where to log.", metavar="FILE", is_path=True),
        ExecOption(name="word", setting="words", text="A word.", metavar="WORD", many=True),
        ExecOption(name="loud", setting="loud", text="Be loud."),
        ExecOption(name="level", setting="level", text="How much.", metavar="LEVEL", choices=("low", "high")),
    ]

class Told(Observer):
    name = "told"

    def __init__(self, settings):
        self.settings = settings

    def observe(self, thread_id, event):
        if event.msg.type == "task_complete":
            s = self.settings
            with open(s.file, "w") as file:
                json.dump({"file": s.file, "words": list(s.words), "loud": s.loud, "level": s.level}, file)

@hookimpl
def codex_observers(plugin):
    settings = plugin.settings(Settings)
    return [Told(settings)] if settings.file else []
"""


@pytest.fixture
def plugin(cli: Any, tmp_path: Path) -> Path:
    cli.serve(say("ok"), repeat_last=True)
    file = tmp_path / "teller.py"
    file.write_text(PLUGIN)
    return file


def test_options_of_a_plugin_set_its_settings(cli: Any, plugin: Path) -> None:
    argv = ("--word", "one", "--log-to", "told.json", "--loud", "hello", "--word=two", "--level", "low")
    ran = cli.exec(*argv, "--plugin", str(plugin))
    assert (ran.status, ran.out) == (0, "ok\n"), ran.err
    told = json.loads((cli.work / "told.json").read_text())
    assert told == {"file": str(cli.work / "told.json"), "words": ["one", "two"], "loud": True, "level": "low"}


def test_a_path_begins_in_the_current_folder_even_with_another_working_folder(cli: Any, plugin: Path) -> None:
    (cli.work / "sub").mkdir()
    ran = cli.exec("--log-to", "told.json", "-C", "sub", "--plugin", str(plugin), "hello")
    assert ran.status == 0, ran.err
    assert (cli.work / "told.json").exists()


def test_the_options_hold_for_resume_and_override_the_configuration(cli: Any, plugin: Path, tmp_path: Path) -> None:
    assert cli.exec("--plugin", str(plugin), "hello").status == 0
    setting = f'framework.plugins.teller.file="{tmp_path}/other.json"'
    argv = ("resume", "--last", "--log-to", "told.json", "--plugin", str(plugin), "-c", setting, "again")
    for words in (argv, ("exec", *argv)):
        ran = cli.run(*words)
        assert ran.status == 0, ran.err
        assert (cli.work / "told.json").exists()
        (cli.work / "told.json").unlink()
    assert not (tmp_path / "other.json").exists()


def test_help_shows_them(cli: Any, plugin: Path) -> None:
    for words in (("--help",), ("resume", "--help")):
        ran = cli.exec("--plugin", str(plugin), *words)
        assert (ran.status, ran.err) == (0, "")
        assert "--log-to <FILE>" in ran.out
    (cli.home / "config.toml").write_text("model = \n")
    ran = cli.exec("--help")
    assert "--model <MODEL>" in ran.out
    assert ran.err.startswith("warning: the options of plugins are not shown: ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--log-too", "x"), "a similar argument exists: '--log-to'"),
        (("--log-to",), "a value is required for '--log-to <FILE>'"),
        (("--level", "hgih"), "a similar value exists: 'high'"),
        (("--loud=yes",), "unexpected value 'yes' for '--loud' found"),
    ],
)
def test_mistakes_are_reported_like_those_with_other_options(cli: Any, plugin: Path, argv: Any, said: str) -> None:
    ran = cli.exec("--plugin", str(plugin), *argv)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_an_option_of_a_plugin_that_is_not_loaded_is_unknown(cli: Any, plugin: Path) -> None:
    assert cli.exec("--log-to", "told.json", "hello").status == 2
    disabled = 'framework.plugins.disabled=["teller"]'
    ran = cli.exec("--plugin", str(plugin), "-c", disabled, "--log-to", "told.json", "hello")
    assert ran.status == 2
    assert "unexpected argument '--log-to' found" in ran.err


def test_a_broken_configuration_is_reported_instead_of_the_option(cli: Any, plugin: Path) -> None:
    (cli.home / "config.toml").write_text("model = \n")
    ran = cli.exec("--plugin", str(plugin), "--log-to", "told.json", "hello")
    assert ran.status == 1
    assert "config.toml" in ran.err.splitlines()[0]


def test_they_are_completed(cli: Any, plugin: Path) -> None:
    words = f"codex-framework --plugin {plugin} exec --log"
    cli.env.update({"_CODEX_FRAMEWORK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"})
    cli.env.pop("PYTHONPATH", None)
    settings = (cli.home / "config.toml").read_text()
    (cli.home / "config.toml").write_text(f"{settings}\n[framework]\nplugins.paths = [{json.dumps(str(plugin))}]\n")
    cli.env.update({"COMP_WORDS": "codex-framework exec --log", "COMP_CWORD": "2"})
    assert cli.run().out.split() == ["plain,--log-to"]


def test_a_run_without_them_asks_no_plugin(cli: Any, plugin: Path) -> None:
    program = (
        "import sys; from codex_framework.cli.main import main;"
        f"status = main(['exec', '--plugin', {str(plugin)!r}, 'hi there']);"
        "print(status, 'codex_framework.cli.plugin_options' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=cli.env, cwd=cli.work, check=False
    )
    assert done.stdout.splitlines()[-1] == "0 False"
