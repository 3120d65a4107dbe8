"""``-c``, ``--enable`` and ``--disable`` with the commands that plugins offer."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from codex_framework.cli.main import main

SETTING = 'mcp_servers.z.command="zzz-program"'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("-c", SETTING, "mcp", "list"),
        (f"--config={SETTING}", "mcp", "list"),
        ("mcp", "-c", SETTING, "list"),
        ("mcp", "list", "-c", SETTING),
        ("mcp", "get", "z", f"--config={SETTING}"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_setting_applies_wherever_it_stands(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "zzz-program" in capsys.readouterr().out


@pytest.mark.usefixtures("home")
def test_a_server_of_the_command_line_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("-c", SETTING, "mcp", "tools", "z")) == 1
    said = capsys.readouterr()
    assert "`z` failed to start" in said.out + said.err
    assert "zzz-program" in said.out + said.err


PROFILE = 'model = "of-the-profile"\n[mcp_servers.z]\ncommand = "zzz-program"\n'


ALIAS = ("-a=on-request", "--search", "-c", "model=x", "--enable", "goals", "-s", "read-only", "--add-dir", "/tmp")


@pytest.mark.parametrize(
    ("before", "command"),
    [
        (("-a", "never"), ("mcp", "list")),
        (("-m", "o3", "-s", "read-only", "--yolo", "--disable", "hooks"), ("mcp", "list")),
        (("--approve-for-me", "--no-alt-screen", "--no-daemon", "--dangerously-bypass-hook-trust"), ("mcp", "list")),
        (("--strict-config", "-i", "x.png"), ("mcp", "list")),
        (ALIAS, ("config", "path")),
        (ALIAS, ("config", "set", "model", "o3")),
        (ALIAS, ("plugins",)),
        (ALIAS, ("trust", "--list")),
        (ALIAS, ("completion", "bash")),
        (ALIAS, ("execpolicy", "check", "--", "ls", "-c")),
        (ALIAS, ("features", "list")),
        (ALIAS, ("--version",)),
        (ALIAS, ("--help",)),
    ],
)
@pytest.mark.usefixtures("home")
def test_options_of_a_turn_may_stand_before_every_command(before: tuple[str, ...], command: tuple[str, ...]) -> None:
    assert main((*before, *command)) == 0


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("-c", "model=x", "config", "get", "model"), "x"),
        (("-m", "x", "config", "get", "model"), "x"),
        (("-p", "prof", "config", "get", "model"), "of-the-profile"),
        (("-p", "prof", "mcp", "list"), "zzz-program"),
        (("-m", "x", "debug", "prompt", "hi"), "to x of openai"),
        (("-c", "model=y", "-m", "x", "debug", "prompt", "hi"), "to x of openai"),
        (("-p", "prof", "debug", "prompt", "hi"), "to of-the-profile of openai"),
        (("-s", "workspace-write", "-a", "never", "config", "get", "sandbox_mode"), "workspace-write"),
        (("--yolo", "config", "get", "approval_policy"), "never"),
        (("-c", 'framework.plugins.disabled=["shell"]', "plugins", "show", "shell"), "disabled"),
        (("-s", "danger-full-access", "-a", "never", "sandbox", "--", "echo", "-c", "done"), "-c done"),
    ],
)
def test_options_before_a_command_are_its_settings(
    words: tuple[str, ...], shown: str, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / "prof.config.toml").write_text(PROFILE)
    assert main(words) == 0
    assert shown in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("config", "-c", "model=x", "get", "model"), "x"),
        (("config", "get", "-c", "model=x", "model"), "x"),
        (("plugins", "-c", 'framework.plugins.disabled=["shell"]', "show", "shell"), "disabled"),
        (("completion", "--enable", "goals", "bash"), "complete"),
        (("debug", "-c", "model=x", "prompt", "hi"), "to x of openai"),
        (("debug", "--enable", "goals", "models", "--bundled"), "gpt-6.2-sol"),
        (("update", "--help"), "Print the command"),
    ],
)
@pytest.mark.usefixtures("home")
def test_settings_may_stand_among_the_arguments_of_a_command(
    words: tuple[str, ...], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    assert shown in capsys.readouterr().out


HOOK = "cat > seen.json"
LOUD = """
from codex_framework import Component, hookimpl

class Loud(Component):
    name = "loud"

    async def start(self, kernel):
        print("the component of the file has started", flush=True)

@hookimpl
def codex_components():
    return [Loud()]
"""


def test_a_command_that_starts_a_kernel_has_its_settings(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))
    (home / "prof.config.toml").write_text('approval_policy = "never"\n')
    (home / "hooks.json").write_text(
        json.dumps({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": HOOK}]}]}})
    )
    for words, mode in (
        ((), "default"),
        (("-p", "prof"), "bypassPermissions"),
        (("-c", "approval_policy=never"), "bypassPermissions"),
        (("-a", "never"), "bypassPermissions"),
    ):
        assert main((*words, "hooks", "test", "SessionStart", "--untrusted")) == 0
        assert json.loads(Path("seen.json").read_text())["permission_mode"] == mode


def test_rules_of_a_folder_are_those_of_its_settings(
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(home)
    (folder / ".git").mkdir()
    (folder / ".codex" / "rules").mkdir(parents=True)
    (folder / ".codex" / "rules" / "a.rules").write_text('prefix_rule(pattern = ["zap"], decision = "forbidden")\n')
    trust = f'projects."{folder}".trust_level="trusted"'
    for words, expected in (((), False), (("-c", trust), True), (("-c", trust, "--ignore-rules"), False)):
        if "--ignore-rules" in words:
            words = (*words[:-1], "-c", "framework.plugins.execpolicy.ignore_rules=true")
        assert main(("-C", str(folder), *words, "execpolicy", "check", "zap")) == 0
        assert ("forbidden" in capsys.readouterr().out) is expected


def test_plugins_of_files_take_part_in_calls_of_tools(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "loud.py").write_text(LOUD)
    assert main(("--plugin", str(home / "loud.py"), "-c", SETTING, "mcp", "tools", "z")) == 1
    assert "the component of the file has started" in capfd.readouterr().out


def test_the_app_server_has_no_profile(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "prof.config.toml").write_text(PROFILE)
    assert main(("-p", "prof", "app-server")) == 2
    assert "--profile does not apply to app-server" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_the_help_lists_what_may_stand_before_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out.partition("Settings, before any command:\n")[2]
    for name in ("-c, --config", "-a, --ask-for-approval", "-m, --model", "-C, --cd", "--search", "--worktree"):
        assert f"  {name}" in text


def test_an_option_of_a_command_with_another_meaning_stays_unset(home: Path) -> None:
    assert main(("-s", "read-only", "mcp", "add", "x", "program")) == 0
    servers = tomllib.loads((home / "config.toml").read_text())["mcp_servers"]
    assert servers == {"x": {"command": "program"}}


def test_a_folder_before_a_command_is_where_it_runs(
    home: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    before = Path.cwd()
    try:
        assert main(("-C", str(elsewhere), "config", "path", "--project")) == 0
        assert main(("-C", str(home / "missing"), "config", "path")) == 1
    finally:
        os.chdir(before)
    captured = capsys.readouterr()
    assert captured.out == f"{elsewhere}/.codex/config.toml\n"
    assert f"the folder {home}/missing cannot be used: No such file or directory\nName an existing" in captured.err


@pytest.mark.parametrize("end", [("--", "python", "-c", "print(1)"), ("python", "-c", "print(1)")])
@pytest.mark.parametrize("settings", [(), ("--enable", "hooks"), ("-c", SETTING)])
def test_the_command_line_of_a_server_stays_as_it_is(
    end: tuple[str, ...], settings: tuple[str, ...], home: Path
) -> None:
    assert main(("mcp", "add", "x", *settings, *end)) == 0
    servers = tomllib.loads((home / "config.toml").read_text())["mcp_servers"]
    assert servers == {"x": {"command": "python", "args": ["-c", "print(1)"]}}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("login", "status", "-c", "zzz"), "has no `=`"),
        (("mcp", "list", "--enable", "no_such_feature_at_all"), ""),
        (("mcp", "list", "-c", 'sandbox_mode="zzz"'), "sandbox_mode"),
        (("-c", 'sandbox_mode="zzz"', "mcp", "list"), "sandbox_mode"),
        (("mcp", "list", "-c"), "requires an argument"),
        (("-c", "model=x", "mcp-server", "--zzz"), "--zzz"),
        (("mcp-server", "-c", "model=x", "--zzz"), "--zzz"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_wrong_with_it_is_said(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(words) != 0) is bool(problem)
    assert problem in capsys.readouterr().err
