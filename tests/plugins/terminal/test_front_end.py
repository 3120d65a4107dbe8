"""How the command line finds and starts a front end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from codex_client_terminal.text import plain_text
from codex_client_terminal.trust import trust_question
from codex_framework.cli import front_end, main
from codex_framework.config import load_config
from codex_framework.contract.errors import CodexError
from codex_framework.loader.discovery import PluginSource, discover
from codex_framework.toolkit.front_ends import FrontEndStart

STARTED: list[FrontEndStart] = []


def start(given: FrontEndStart) -> int:
    STARTED.append(given)
    return 7


OURS = PluginSource(name="terminal", target=f"{__name__}:start", distribution="codex-framework")
OTHER = PluginSource(name="zebra", target="zebra:start", distribution="zebra")


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line believe that a person is there, and that this module has the front end."""
    STARTED.clear()
    monkeypatch.setattr(os, "isatty", lambda _: True)
    monkeypatch.setattr(
        "codex_framework.loader.discovery.discover",
        lambda group: [OURS] if group.endswith("front_ends") else discover(group),
    )


@pytest.mark.parametrize(
    ("argv", "command", "thread", "prompt", "newest"),
    [
        ([], "start", None, None, False),
        (["fix the bug"], "start", None, "fix the bug", False),
        (["hello"], "start", None, "hello", False),
        (["-m", "o3", "fix the bug"], "start", None, "fix the bug", False),
        (["resume"], "resume", None, None, False),
        (["resume", "--last"], "resume", None, None, True),
        (["resume", "abc", "go on"], "resume", "abc", "go on", False),
        (["fork", "abc", "--at", "2"], "fork", "abc", None, False),
        (["-C", ".", "fork"], "fork", None, None, False),
    ],
)
@pytest.mark.usefixtures("at_a_terminal")
def test_a_command_line_for_a_person_starts_it(
    argv: list[str], command: str, thread: str | None, prompt: str | None, newest: bool
) -> None:
    assert main._front_end(argv, argv[2:] if argv[:1] in (["-m"], ["-C"]) else argv) == 7
    [given] = STARTED
    assert (given.command, given.thread, given.prompt, given.newest) == (command, thread, prompt, newest)


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "fix the bug"],
        ["word", "word"],
        ["plugins"],
        ["review"],
        ["doctor"],
        ["init"],
        ["resume", "--help"],
        ["fork", "-h"],
    ],
)
@pytest.mark.usefixtures("at_a_terminal")
def test_other_command_lines_do_not(words: list[str]) -> None:
    assert main._front_end(words, words) is None


def test_without_a_terminal_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_framework.loader.discovery.discover", lambda _: [OURS])
    for descriptor, words in ((0, []), (0, ["fix the bug"]), (1, ["fix the bug"]), (1, ["resume"])):
        monkeypatch.setattr(os, "isatty", lambda number, pipe=descriptor: number != pipe)
        assert main._front_end(words, words) is None


@pytest.mark.usefixtures("at_a_terminal")
def test_without_a_front_end_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_framework.loader.discovery.discover", lambda _: [])
    assert main._front_end([], []) is None


def test_another_distribution_replaces_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_framework.loader.discovery.discover", lambda _: [OURS, OTHER])
    assert front_end.find_front_end() is OTHER


def test_one_that_cannot_be_imported_is_reported() -> None:
    with pytest.raises(CodexError, match="zebra"):
        front_end.start_front_end(OTHER, [])


@pytest.mark.usefixtures("at_a_terminal")
def test_a_wrong_command_line_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main._front_end(["resume", "--bogus"], ["resume", "--bogus"]) == 2
    assert "--bogus" in capsys.readouterr().err
    assert STARTED == []


@pytest.mark.usefixtures("at_a_terminal")
def test_options_count_for_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    argv = ["-m", "o3", "-a", "on-request", "-c", "model_verbosity=low", "fix the bug"]
    main._front_end(argv, argv[-1:])
    config: Any = STARTED[0].load_config()
    assert [config.get(key) for key in ("model", "approval_policy", "model_verbosity")] == ["o3", "on-request", "low"]
    STARTED[0].decide_trust(config, "trusted")
    assert STARTED[0].load_config().trust == "trusted"


def test_the_trust_question_names_what_a_folder_wants_to_set(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text("model = 'x'\n[mcp_servers.evil]\ncommand = 'sh'\n")
    config = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    shown = " ".join(plain_text(line) for line in trust_question(config).lines)
    assert "sets: mcp_servers, model" in shown


def test_no_number_of_settings_hides_those_that_run_programs(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    many = "".join(f"a{number} = 1\n" for number in range(300))
    (tmp_path / ".codex" / "config.toml").write_text(f"{many}[mcp_servers.evil]\ncommand = 'sh'\n")
    config = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    assert "sets: mcp_servers, a0" in " ".join(plain_text(line) for line in trust_question(config).lines)


def test_the_trust_question_names_every_file_that_would_count(tmp_path: Path) -> None:
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    folders = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    for folder in folders:
        (folder / ".codex").mkdir(parents=True)
        (folder / ".codex" / "config.toml").write_text("hooks = {}\n")
    config = load_config(cwd=folders[-1], environ={"CODEX_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    shown = [plain_text(line) for line in trust_question(config).lines]
    assert [f"{folder}/.codex/config.toml sets: hooks" for folder in folders] == shown[-3:]
